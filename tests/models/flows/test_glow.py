"""Glow: inverse, volume, a Gaussian in closed form where it is linear, bits per dimension, and a recipe that fits."""

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.comparison.measures import bits_per_dimension
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.flows._flow import spread
from deepcanon.models.flows.glow import Glow
from deepcanon.nn.transforms import ActNorm


def images(count: int, shape: tuple[int, int, int]) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(3)).cumsum(-1) + 1


def flow(shape: tuple[int, int, int], **arguments: Any) -> Glow:
    """One that is far from the identity, on data with a unit of their own."""
    torch.manual_seed(0)
    model = Glow(*shape, **{"depth": 2, "hidden": 8} | arguments)
    model.prepare([Batch(images(100, shape))])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


SHAPES = [((1, 4, 4), 2), ((3, 4, 4), 1), ((2, 8, 4), 2), ((1, 8, 8), 3)]


@pytest.mark.parametrize(("shape", "scales"), SHAPES)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-9)])
def test_to_data_inverts_to_latent_both_ways(
    shape: tuple[int, int, int], scales: int, dtype: torch.dtype, bound: float
) -> None:
    model = flow(shape, scales=scales).to(dtype)
    x, z = images(16, shape).to(dtype), torch.randn(16, model.features, dtype=dtype)
    with torch.no_grad():
        assert float((model.to_data(model.encode(x)) - x).abs().max()) < bound * float(x.abs().max())
        there = model.to_data(z)
        assert there.shape == (16, *shape)
        assert float((model.encode(there) - z).abs().max()) < bound * float(z.abs().max())


@pytest.mark.parametrize(("shape", "scales"), SHAPES[:2])
def test_the_log_determinant_is_the_jacobian_s(shape: tuple[int, int, int], scales: int) -> None:
    model = flow(shape, scales=scales).double()
    x = images(3, shape).double()
    _, claimed = model.to_latent(x)
    for row, log_det in zip(x, claimed, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v.unsqueeze(0)).squeeze(0), row)
        wanted = torch.linalg.slogdet(jacobian.reshape(model.features, -1)).logabsdet
        assert log_det.item() == pytest.approx(wanted.item(), abs=1e-9)


def test_with_networks_that_are_constant_it_is_a_gaussian() -> None:
    """Then z = A x + b, so that x has the mean -b / A and the covariance of A's inverse; scipy has its density."""
    model = flow((1, 4, 4)).double()
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.zeros_(layer.weight)  # their biases stay, so that couplings scale and shift
    x = images(10, (1, 4, 4)).double()
    with torch.no_grad():
        b = model.encode(torch.zeros(1, 1, 4, 4, dtype=torch.float64))
        a = (model.encode(torch.eye(16, dtype=torch.float64).reshape(16, 1, 4, 4)) - b).T
        inverse = torch.linalg.inv(a)
        gaussian = stats.multivariate_normal((-inverse @ b[0]).numpy(), (inverse @ inverse.T).numpy())
        expected = torch.from_numpy(gaussian.logpdf(x.flatten(1).numpy()))
        torch.testing.assert_close(model.log_prob(x), expected, rtol=0, atol=1e-9)


def test_actnorm_begins_with_standardized_channels_and_is_not_fitted_again() -> None:
    torch.manual_seed(0)
    model, x = Glow(1, 8, 8, depth=3, hidden=8), 40 * images(300, (1, 8, 8)) - 7
    model.prepare([Batch(part) for part in x.split(64)])
    with torch.no_grad():
        z = model.encode(x)
    assert 0.9 < float(z.std()) < 1.1
    assert abs(float(z.mean())) < 0.05
    before = [layer.log_scale.clone() for layer in model.modules() if isinstance(layer, ActNorm)]
    model.prepare([Batch(0.1 * x)])
    after = [layer.log_scale for layer in model.modules() if isinstance(layer, ActNorm)]
    assert len(before) == 7
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_examples_are_spread_over_the_data_in_one_pass() -> None:
    found, twice = spread(((part, 2 * part) for part in torch.arange(1000.0).split(37)), 100)
    assert torch.equal(twice, 2 * found)
    assert 100 <= len(found) <= 200
    assert found.diff().unique().tolist() == [8.0]


def test_every_value_of_a_small_image_reaches_every_other() -> None:
    model = flow((1, 4, 4), depth=4).double()
    jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v)[0], images(1, (1, 4, 4)).double())
    assert float(jacobian.abs().min()) > 0


def test_bits_per_dimension_are_those_of_the_comparison() -> None:
    model, batch = Glow.example()
    with torch.no_grad():
        metrics = model.metrics(batch)
    wanted = bits_per_dimension(-float(metrics["nll"]), dimensions=16, levels=4)
    assert float(metrics["bits_per_dim"]) == pytest.approx(wanted, rel=1e-6)
    assert set(Glow(1, 4, 4).metrics(batch)) == {"nll"}


def test_dequantized_images_bring_their_gray_levels() -> None:
    data = dc.load_data("digits:dequantized")
    assert data.sizes["levels"] == 17
    assert "levels" not in dc.load_data("digits").sizes


def test_samples_are_images_and_cold_ones_vary_less() -> None:
    model = flow((1, 4, 4))
    assert model.sample(7).shape == (7, 1, 4, 4)
    rows = model.gallery(images(300, (1, 4, 4)), generator=torch.Generator().manual_seed(0))
    spreads = [float(shown.std(0).mean()) for shown in rows.values()]
    assert list(rows) == ["temperature 0.5", "temperature 0.75", "temperature 1"]
    assert spreads == sorted(spreads)


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(DataError, match=r"images of the shape \(1, 4, 4\), got \(16,\)"):
        flow((1, 4, 4)).log_prob(torch.randn(3, 16))
    with pytest.raises(UsageError, match=r"divisible by 8 \(got 28x28\); take fewer scales"):
        Glow(1, 28, 28, scales=3)


@pytest.mark.slow
def test_the_recipe_needs_fewer_bits_than_a_gaussian() -> None:
    """Of dequantized digits; a fifth of the epochs is enough for that."""
    torch.manual_seed(0)
    data = dc.load_data("digits:dequantized")
    train, test = (data.split(name).x.flatten(1).double().numpy() for name in ("train", "test"))
    gaussian = stats.multivariate_normal(train.mean(0), torch.from_numpy(train).T.cov().numpy())
    bits = bits_per_dimension(gaussian.logpdf(test).mean(), dimensions=64, levels=17)
    result = dc.fit(Glow(1, 8, 8, levels=17), data, epochs=6, quiet=True)
    assert result.test["bits_per_dim"] < bits - 0.1, bits
