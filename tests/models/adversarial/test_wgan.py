"""The Wasserstein GAN: its penalty in closed form, and what its critic says of the earth mover's distance."""

import math
from typing import Any

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import wasserstein_distance
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.models.adversarial.wgan import WGAN
from deepcanon.train import fit


def linear_layers(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def with_critic(weight: list[float], **arguments: Any) -> WGAN:
    """A model in double precision with the linear critic of these weights."""
    model = WGAN(features=len(weight), latent=2, hidden=(), **arguments).double()
    (layer,) = linear_layers(model.discriminator)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]  # a constant would change nothing
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weight]))
    return model


def with_generated(model: WGAN, scale: float, shift: list[float]) -> WGAN:
    """The model with a generator that gives N(shift, scale^2 I) exactly."""
    features = len(shift)
    layer = nn.Linear(model.latent, features).double()
    with torch.no_grad():
        layer.weight.copy_(scale * torch.eye(features, model.latent))
        layer.bias.copy_(torch.tensor(shift))
    model.generator = nn.Sequential(layer, model.generator[-1])
    return model


def earth_movers_distance(x: Tensor, y: Tensor) -> float:
    costs = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    return float(costs[linear_sum_assignment(costs)].mean())


def test_at_a_linear_critic_the_penalty_and_its_gradient_are_in_closed_form() -> None:
    model = with_critic([3.0, 4.0], strength=2.5)
    x, fake = torch.randn(2, 16, 2, dtype=torch.float64, generator=Generator().manual_seed(0))
    penalty = model.gradient_penalty(x, fake)
    assert penalty.item() == pytest.approx(2.5 * (5 - 1) ** 2, rel=1e-12)
    (gradient,) = torch.autograd.grad(penalty, linear_layers(model.discriminator)[0].weight)
    torch.testing.assert_close(gradient, 2.5 * 2 * (5 - 1) * torch.tensor([[0.6, 0.8]], dtype=torch.float64))


def test_the_penalty_is_that_of_each_example_at_a_point_between_data_and_samples() -> None:
    torch.manual_seed(0)
    model = WGAN(features=3, latent=2, hidden=(8,), strength=1.0).double()
    x, fake = torch.randn(2, 16, 3, dtype=torch.float64)
    torch.manual_seed(1)
    penalty = model.gradient_penalty(x, fake)
    torch.manual_seed(1)
    share = torch.rand(16, 1, dtype=torch.float64)
    by_hand = 0.0
    for point in share * x + (1 - share) * fake:
        steps = 1e-6 * torch.eye(3, dtype=torch.float64)
        slope = (model.discriminate(point + steps) - model.discriminate(point - steps)) / 2e-6
        by_hand += (slope.norm().item() - 1) ** 2 / 16
    assert penalty.item() == pytest.approx(by_hand, rel=1e-6)


def test_a_critic_without_slope_gets_a_finite_gradient() -> None:
    model = with_critic([0.0, 0.0], strength=7.0)
    penalty = model.gradient_penalty(torch.ones(4, 2).double(), torch.zeros(4, 2).double())
    (gradient,) = torch.autograd.grad(penalty, linear_layers(model.discriminator)[0].weight)
    assert penalty.item() == pytest.approx(7.0)
    assert gradient.isfinite().all()


def test_the_losses_are_the_differences_that_the_critic_finds() -> None:
    model = with_generated(with_critic([2.0, -1.0], strength=3.0), scale=0.0, shift=[1.0, 5.0])
    batch = Batch(torch.tensor([[4.0, 0.0], [0.0, 2.0]]).double())
    terms = model.discriminator_loss(batch)
    assert terms["critic"].item() == pytest.approx((2 - 5) - (8 - 2) / 2)
    assert terms["penalty"].item() == pytest.approx(3 * (math.sqrt(5) - 1) ** 2)
    assert model.loss(batch)["generator"].item() == pytest.approx(-(2 - 5))
    clipped = with_critic([2.0, -1.0], penalty="clip")
    assert set(clipped.discriminator_loss(batch)) == {"critic"}


@pytest.mark.parametrize("features", [1, 2, 5])
def test_whatever_the_critic_it_stays_below_the_exact_distance(features: int) -> None:
    random = Generator().manual_seed(0)
    tightest = 0.0
    for seed in range(40):
        torch.manual_seed(seed)
        model = WGAN(features=features, latent=2, hidden=(16,)).double()
        with torch.no_grad():
            for parameter in model.discriminator.parameters():
                parameter.mul_(10 ** torch.empty(1).uniform_(-2, 2).item())
        x, y = torch.randn(2, 30, features, dtype=torch.float64, generator=random)
        y = 1.5 * y + 1
        exact = wasserstein_distance(x[:, 0], y[:, 0]) if features == 1 else earth_movers_distance(x, y)
        found = [model.wasserstein(x, y).item(), model.wasserstein(y, x).item()]
        assert max(found) <= exact * (1 + 1e-9)
        tightest = max(tightest, max(found) / exact)
    assert tightest > 0.3  # the bound is not empty


def test_the_bound_is_reached_by_the_best_critic_and_is_zero_without_any() -> None:
    x = torch.randn(50, 2, dtype=torch.float64, generator=Generator().manual_seed(0))
    y = x - torch.tensor([3.0, 4.0])
    assert with_critic([30.0, 40.0]).wasserstein(x, y).item() == pytest.approx(5.0)
    assert with_critic([0.0, 0.0]).wasserstein(x, y).item() == 0
    twice = torch.cat([x, x])  # the same point has no slope to itself
    assert with_critic([3.0, 4.0]).wasserstein(twice, twice - torch.tensor([3.0, 4.0])).item() == pytest.approx(5.0)


def trained_critic(model: WGAN, data: Tensor, steps: int) -> WGAN:
    optimizer = torch.optim.Adam(model.discriminator.parameters(), lr=1e-2, betas=(0.5, 0.9))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    random = Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(data), (256,), generator=random)
        optimizer.zero_grad()
        sum(model.discriminator_loss(Batch(data[rows])).values()).backward()  # type: ignore[union-attr]
        optimizer.step()
        schedule.step()
    return model


@pytest.mark.slow
@pytest.mark.parametrize("strength", [10.0, 100.0])
def test_between_two_gaussians_the_critic_finds_the_distance_of_their_means(strength: float) -> None:
    """Optimal transport shifts the one Gaussian onto the other, so that W1 is the length of the shift, d.

    The best critic is linear; at the slope s its loss is -s d + strength (s - 1)^2, which is least at
    s = 1 + d / (2 strength).
    """
    torch.manual_seed(0)
    model = with_generated(WGAN(2, latent=2, hidden=(32,), strength=strength).double(), scale=1.0, shift=[2.0, -1.5])
    data = torch.randn(20_000, 2, dtype=torch.float64)
    trained_critic(model, data, steps=600)
    fake = model.sample(20_000)
    difference = (model.discriminate(data).mean() - model.discriminate(fake).mean()).item()
    assert difference == pytest.approx(2.5 * (1 + 2.5 / (2 * strength)), rel=0.02)
    x, y = data[:400], fake[:400]
    bound, exact = model.wasserstein(x, y).item(), earth_movers_distance(x, y)
    assert 0.85 * exact < bound <= exact


@pytest.mark.slow
def test_where_no_linear_critic_helps_it_finds_the_distance_of_points() -> None:
    """All mass at 0 goes to -2 or 2: the means agree, W1 is 2, and the best critic is (1 + 2 / (2 strength)) |x|."""
    torch.manual_seed(0)
    model = with_generated(WGAN(1, latent=1, hidden=(32,), strength=1.0).double(), scale=0.0, shift=[0.0])
    data, zero = torch.tensor([[-2.0], [2.0]]).double(), torch.zeros(2, 1).double()
    trained_critic(model, data, steps=500)
    difference = (model.discriminate(data).mean() - model.discriminate(zero).mean()).item()
    assert difference == pytest.approx(2 * (1 + 2 / 2), rel=0.05)
    assert model.wasserstein(data, zero).item() == pytest.approx(2.0, rel=0.05)


def test_only_clipping_keeps_the_weights_within_bounds() -> None:
    data = from_tensors(torch.randn(64, 2, generator=Generator().manual_seed(0)))
    largest = {}
    for penalty, strength in (("clip", 0.02), ("gradient", 1.0)):
        torch.manual_seed(0)
        model = WGAN(2, latent=2, hidden=(8,), penalty=penalty, strength=strength)  # type: ignore[arg-type]
        fit(model, data, quiet=True, steps=6, batch_size=32)
        largest[penalty] = max(parameter.abs().max().item() for parameter in model.discriminator.parameters())
        assert max(parameter.abs().max().item() for parameter in model.generator.parameters()) > 0.02
    assert largest["clip"] == pytest.approx(0.02)
    assert largest["gradient"] > 0.02


@pytest.mark.parametrize(("steps", "moved"), [(4, False), (5, True)])
def test_the_generator_moves_once_in_so_many_steps_of_the_critic(steps: int, moved: bool) -> None:
    torch.manual_seed(0)
    model = WGAN(2, latent=2, hidden=(8,), critic_steps=5)
    before = {name: value.clone() for name, value in model.named_parameters()}
    fit(model, from_tensors(torch.randn(64, 2)), quiet=True, steps=steps, batch_size=32)
    changed = {
        name.partition(".")[0] for name, value in model.named_parameters() if not torch.equal(value, before[name])
    }
    assert changed == ({"discriminator", "generator"} if moved else {"discriminator"})


def test_shift_and_scale_of_the_data_change_nothing_but_the_unit_of_the_distance() -> None:
    x = torch.randn(64, 2, generator=Generator().manual_seed(0), dtype=torch.float64)
    terms, distances = [], []
    for data in (x, 3 * x + 5):
        torch.manual_seed(0)
        model = WGAN(features=2, latent=2, hidden=(8,)).double()
        model.prepare([Batch(data)])
        torch.manual_seed(1)
        terms.append(torch.stack(list(model.discriminator_loss(Batch(data)).values())))
        torch.manual_seed(1)
        distances.append(model.metrics(Batch(data))["wasserstein"].item())
    torch.testing.assert_close(terms[1], terms[0], rtol=1e-6, atol=1e-6)
    assert distances[1] == pytest.approx(3 * distances[0], rel=1e-5)


def test_the_metrics_are_distances_to_as_many_samples() -> None:
    torch.manual_seed(0)
    model, batch = WGAN.example()
    torch.manual_seed(1)
    metrics = model.metrics(batch)
    torch.manual_seed(1)
    fake = model.sample(len(batch))
    torch.testing.assert_close(metrics["energy_distance"], energy_distance(fake, batch.x))
    torch.testing.assert_close(metrics["wasserstein"], model.wasserstein(batch.x, fake))
    assert model.surrogate


@pytest.mark.slow
def test_it_covers_the_eight_modes() -> None:
    torch.manual_seed(0)
    model = WGAN(features=2)
    result = fit(model, load_data("eight-gaussians"), quiet=True, seed=0, epochs=20)
    angle = torch.arange(8) * (math.pi / 4)
    centers = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
    samples = model.sample(2000, generator=Generator().manual_seed(0))
    shares = (torch.cdist(samples, centers) <= 0.3).double().mean(0)
    assert int((shares >= 0.01).sum()) == 8
    assert result.test["energy_distance"] < 0.06


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="penalty must be one of gradient, clip"):
        WGAN(features=2, penalty="spectral")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"strength of the penalty must be positive \(got 0\.0\)"):
        WGAN(features=2, strength=0.0)
    with pytest.raises(UsageError, match="critic_steps must be at least 1"):
        WGAN(features=2, critic_steps=0)
    with pytest.raises(UsageError, match="wgan is not a conditional model and takes no context"):
        WGAN.example()[0].sample(3, context=torch.zeros(3))
