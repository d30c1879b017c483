"""Conditional Glow: the exact conditional of a Gaussian, volumes, halves that are kept, and classes that matter."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

import deepcanon as dc
from deepcanon.core import DataError, Labeled, UsageError
from deepcanon.models.flows._multi_scale import Told, _squeezed
from deepcanon.models.flows.conditional_glow import ConditionalGlow

SHAPE = (1, 8, 4)


def images(count: int, shape: tuple[int, int, int] = SHAPE) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(3)).cumsum(-2).double() + 1


def flow(**arguments: Any) -> ConditionalGlow:
    """One that is far from the identity, on data with a unit of their own."""
    torch.manual_seed(0)
    sizes: Any = {"scales": 2, "depth": 2, "hidden": 8} | arguments
    model = ConditionalGlow(*SHAPE, classes=3, **sizes).double()
    model.prepare([Labeled(images(99), torch.arange(99) % 3)])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def linear() -> ConditionalGlow:
    """A flow whose shifts are linear in all that they read, and whose scales are constant: no unit is ever off."""
    model = flow()
    with torch.no_grad():
        for coupling in model.modules():
            if isinstance(coupling, Told):
                layers: Any = coupling.net
                first, _, second, _, last = layers
                first.bias.fill_(200.0)
                second.weight.mul_(0.1)
                second.bias.fill_(200.0)
                last.weight[: len(last.weight) // 2] = 0  # the log-scales
                last.bias.zero_()
    return model


@pytest.mark.slow
def test_given_the_upper_half_the_lower_one_has_the_exact_conditional_of_a_gaussian() -> None:
    """z = A x + b of whole images, so that the conditional follows from the joint covariance by its blocks."""
    model, x, y = linear(), images(6), torch.tensor([2])
    here = model.given(y)
    with torch.no_grad():
        b = here.encode(torch.zeros(1, *SHAPE).double())[0]
        a = (here.encode(torch.eye(32).double().reshape(32, *SHAPE)) - b).T
        again = here.encode(x)
        torch.testing.assert_close(again, x.flatten(1) @ a.T + b, rtol=1e-9, atol=1e-7)  # it is linear
        covariance = torch.linalg.inv(a.T @ a)
        mean = -torch.linalg.solve(a, b)
        gain = torch.linalg.solve(covariance[:16, :16], covariance[:16, 16:]).T
        assert float(gain.abs().max()) > 0.05  # the halves do depend on each other
        left = covariance[16:, 16:] - gain @ covariance[:16, 16:]
        upper, lower = x.flatten(1).split(16, 1)
        centers = mean[16:] + (upper - mean[:16]) @ gain.T
        wanted = MultivariateNormal(centers, (left + left.T) / 2).log_prob(lower)
        torch.testing.assert_close(model.inpaint_log_prob(x, context=y), wanted, rtol=1e-7, atol=1e-6)
        many = x[:1].expand(20_000, *SHAPE)
        drawn = here.inpaint(many, generator=torch.Generator().manual_seed(0)).flatten(1)
    assert torch.equal(drawn[:, :16], many.flatten(1)[:, :16])
    spread = left.diagonal().sqrt()
    assert float(((drawn[:, 16:].mean(0) - centers[0]) / spread).abs().max()) < 0.05
    assert float(((drawn[:, 16:].T.cov() - left) / spread.outer(spread)).abs().max()) < 0.05


@pytest.mark.slow
def test_the_log_determinant_is_the_jacobian_s_of_the_whole_and_of_the_lower_half() -> None:
    model, x, y = flow(), images(3), torch.tensor([0, 1, 2])
    _, claimed = model.given(y).to_latent(x)
    for row, label, log_det in zip(x, y, claimed, strict=True):
        here = model.given(label.unsqueeze(0))
        jacobian = torch.autograd.functional.jacobian(lambda v, m=here: m.encode(v.unsqueeze(0))[0], row)
        matrix = jacobian.reshape(32, 32)
        assert float(matrix[:16, 16:].abs().max()) == 0  # the upper latents see nothing of the lower half
        assert log_det.item() == pytest.approx(torch.linalg.slogdet(matrix).logabsdet.item(), abs=1e-8)
        z = here.encode(row.unsqueeze(0))[0, 16:]
        normal = MultivariateNormal(torch.zeros(16).double(), torch.eye(16).double())
        below = normal.log_prob(z) + torch.linalg.slogdet(matrix[16:, 16:]).logabsdet
        assert here.inpaint_log_prob(row.unsqueeze(0)).item() == pytest.approx(below.item(), abs=1e-8)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_to_data_inverts_to_latent_both_ways(dtype: torch.dtype, tolerance: float) -> None:
    model, x, y = flow().to(dtype), images(9).to(dtype), torch.arange(9) % 3
    here, z = model.given(y), torch.randn(9, 32, dtype=dtype)
    with torch.no_grad():
        assert float((here.to_data(here.encode(x)) - x).abs().max()) < tolerance * float(x.abs().max())
        assert float((here.encode(here.to_data(z)) - z).abs().max()) < tolerance * float(z.abs().max()) * 10


def test_maps_are_squeezed_as_torch_squeezes_images() -> None:
    x = torch.randn(2, 3, 4, 8)
    assert torch.equal(_squeezed(x, 2), nn.functional.pixel_unshuffle(x, 2))
    assert torch.equal(_squeezed(x, 4), nn.functional.pixel_unshuffle(x, 4))
    assert _squeezed(x[:0], 2).shape == (0, 12, 2, 4)


def test_wrong_images_and_odd_heights_are_refused() -> None:
    with pytest.raises(DataError, match=r"images of the shape \(1, 8, 4\), got \(1, 4, 8\)"):
        flow().inpaint(torch.rand(1, 1, 4, 8).double(), context=torch.tensor([0]))
    with pytest.raises(UsageError, match=r"even height \(got 7\)"):
        ConditionalGlow(1, 7, 4, classes=2)
    with pytest.raises(UsageError, match="give classes"):
        flow().inpaint(images(1))


@pytest.mark.slow
def test_after_ten_epochs_the_upper_half_tells_about_the_lower_one() -> None:
    """Test images with the upper half of another image of their class have a lower conditional density."""
    torch.manual_seed(0)
    data = dc.load_data("digits:dequantized")
    model = ConditionalGlow(1, 8, 8, classes=10, levels=17, depth=2, hidden=16)
    dc.fit(model, data, epochs=10, quiet=True, evaluate=False)
    test = data.split("test")
    order = test.y.argsort()
    x, y = test.x[order], test.y[order]
    mixed = torch.cat([x.roll(1, 0)[:, :, :4], x[:, :, 4:]], 2)
    with torch.no_grad():
        own, others = (model.inpaint_log_prob(each, context=y) for each in (x, mixed))
    gain = (own - others).double()
    assert float(gain.mean()) > 4 * float(gain.std()) / len(gain) ** 0.5
