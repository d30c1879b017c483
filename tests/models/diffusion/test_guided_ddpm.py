"""Guided DDPM: the score of the tilted density and the bound given a class against closed forms; labels and errors."""

import math

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import DataError, Labeled, UsageError
from deepcanon.models.diffusion._diffusion import beta_schedule
from deepcanon.models.diffusion._solvers import Level, Prediction
from deepcanon.models.diffusion.ddpm import DDPM
from deepcanon.models.diffusion.guided_ddpm import GuidedDDPM

MEANS = torch.tensor([[2.0, -1.0], [-1.0, 0.5], [0.5, 2.0]], dtype=torch.float64)
SHARES = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
COVARIANCE = torch.tensor([[0.9, 0.3], [0.3, 0.4]], dtype=torch.float64)
EYE = torch.eye(2, dtype=torch.float64)
CENTER = torch.tensor([0.8, 0.05], dtype=torch.float64)
SPREAD = 1.5


class Analytic(GuidedDDPM):
    """The best prediction of the noise of three Gaussian classes, conditional or not, so that nothing is trained."""

    def _predicted_by(self, net: nn.Module, x: Tensor, t: Tensor, level: Level) -> Prediction:
        means = level.signal.unsqueeze(-1) * (MEANS - CENTER) / SPREAD  # (1 or B, 3, 2)
        scaled = COVARIANCE / SPREAD**2
        noisy = level.signal.square().unsqueeze(-1) * scaled + level.noise.square().unsqueeze(-1) * EYE
        pulls: Tensor = torch.linalg.solve(noisy.unsqueeze(1), (means - x.unsqueeze(1)).unsqueeze(-1)).squeeze(
            -1
        )  # (B, 3, 2)
        if self.context is None:
            by_class = SHARES.log() - 0.5 * ((means - x.unsqueeze(1)) * pulls).sum(-1)
            score: Tensor = (by_class.softmax(1).unsqueeze(-1) * pulls).sum(1)
        else:
            score = pulls[torch.arange(len(x)), self._context(len(x))]
        return Prediction(-level.noise / level.signal * (score + x))  # v, of the predicted noise -σ ∇ log p


def analytic(timesteps: int) -> Analytic:
    model = Analytic(2, classes=3, hidden=(4,), timesteps=timesteps, noise="linear").double()
    model.to_standard.set(torch.tensor(1 / SPREAD, dtype=torch.float64), -CENTER / SPREAD)
    model.betas = torch.cat([torch.zeros(1, dtype=torch.float64), beta_schedule("linear", timesteps)])
    return model


def classes(noise: float = 0.0) -> MultivariateNormal:
    return MultivariateNormal(MEANS, COVARIANCE + noise * EYE)


def mixture(noise: float = 0.0) -> MixtureSameFamily:
    return MixtureSameFamily(Categorical(SHARES), classes(noise))


def stirred(seed: int = 0) -> GuidedDDPM:
    """A small model whose weights have left their initialization, where many of them are zero."""
    torch.manual_seed(seed)
    model = GuidedDDPM(2, classes=3, hidden=(8,), timesteps=10).double()
    for weights in model.averaged.buffers():
        weights.add_(torch.randn_like(weights), alpha=0.3)
    return model


@pytest.mark.parametrize("weight", [-1.0, 0.0, 0.5, 3.0])
@pytest.mark.parametrize("t", [1, 30, 90])
def test_guidance_follows_the_score_of_the_tilted_density(weight: float, t: int) -> None:
    """The gradient of log p(x) + (1 + w) log p(y | x), of data with the noise of timestep t."""
    torch.manual_seed(0)
    model = analytic(100)
    at = model.noise_schedule().at(torch.tensor([t]))
    noise = float(at.beta_bar / at.alpha_bar) * SPREAD**2
    x = (3 * torch.randn(30, 2, dtype=torch.float64)).requires_grad_()
    y = torch.randint(3, (30,))
    joint = SHARES.log() + classes(noise).log_prob(x.unsqueeze(1))  # (30, 3)
    tilted = mixture(noise).log_prob(x) + (1 + weight) * joint.log_softmax(1).gather(1, y.unsqueeze(1)).squeeze(1)
    (wanted,) = torch.autograd.grad(tilted.sum(), x)
    got = model.given(y, weight).score(x.detach(), t)
    assert torch.allclose(got, wanted, atol=1e-9, rtol=1e-9)


def test_without_guidance_the_prediction_is_that_of_the_conditional_network() -> None:
    model = stirred()
    x, t, y = (
        torch.randn(6, 2, dtype=torch.float64),
        torch.tensor([1, 2, 4, 6, 9, 10]),
        torch.tensor([0, 1, 2, 2, 1, 0]),
    )
    at = model.noise_schedule().at(t)

    def predicted(labels: Tensor) -> Tensor:
        v: Tensor = model.averaged(x, t * 100.0, labels)
        return at.beta_bar.sqrt() * x + at.alpha_bar.sqrt() * v

    conditional, unconditional = predicted(y), predicted(torch.full((6,), 3))
    assert torch.equal(model.given(y, 0.0).predicted_noise(x, t), conditional)
    assert torch.equal(model.predicted_noise(x, t), unconditional)
    assert (conditional - unconditional).abs().min() > 1e-3
    assert torch.allclose(model.given(y, 2.0).predicted_noise(x, t), 3 * conditional - 2 * unconditional)
    assert torch.allclose(model.given(y, -1.0).predicted_noise(x, t), unconditional)


def test_context_conditions_samples_and_the_bound_on_classes() -> None:
    model, y = stirred(), torch.tensor([0, 1, 2, 2])
    conditional = model.given(y)
    assert torch.equal(
        model.sample(4, context=y, generator=Generator().manual_seed(0)),
        conditional.sample(4, generator=Generator().manual_seed(0)),
    )
    x = torch.randn(4, 2, dtype=torch.float64)
    assert torch.equal(
        model.log_prob(x, context=y, generator=Generator().manual_seed(0)),
        conditional.log_prob(x, generator=Generator().manual_seed(0)),
    )
    assert model.context is None
    assert conditional.averaged is model.averaged


@pytest.mark.slow
def test_a_few_labels_serve_many_samples_in_turn() -> None:
    drawn = analytic(200).given(torch.arange(3)).sample(9000, generator=Generator().manual_seed(0))
    for c in range(3):
        assert torch.allclose(drawn[c::3].mean(0), MEANS[c], atol=0.06)
        assert torch.allclose(drawn[c::3].T.cov(), COVARIANCE, atol=0.07)


def test_the_bound_given_the_class_lies_below_its_density_and_comes_near() -> None:
    torch.manual_seed(0)
    y = torch.randint(3, (10_000,))
    x = classes().sample(torch.Size([10_000]))[torch.arange(10_000), y]
    exact = classes().log_prob(x.unsqueeze(1))[torch.arange(10_000), y]
    gap = exact - analytic(80).log_prob(x, context=y)
    error = float(gap.std()) / 100
    assert -4 * error < float(gap.mean()) < 0.1


@pytest.mark.slow
def test_the_guided_model_keeps_the_laws_of_diffusion_processes() -> None:
    model, batch = GuidedDDPM.example()
    found = laws.check((model.given(1, guidance=2.0), batch), "diffusion")
    assert all(outcome.holds for outcome in found), laws.report(found)


def test_labels_are_dropped_with_the_given_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = GuidedDDPM(2, classes=3, hidden=(4,), timesteps=5, class_dropout=0.3)
    y, seen = torch.randint(3, (20_000,)), []

    def spy(x: Tensor, time: Tensor, labels: Tensor) -> Tensor:
        seen.append(labels)
        return x

    monkeypatch.setattr(model.net, "forward", spy)
    for _ in range(2):
        model.loss(Labeled(torch.randn(20_000, 2), y))
    for labels in seen:
        dropped = labels == 3
        assert abs(float(dropped.double().mean()) - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 20_000)
        assert torch.equal(labels[~dropped], y[~dropped])
    assert not torch.equal(*seen)


@pytest.mark.slow
def test_it_learns_which_class_lives_where() -> None:
    """Two classes in opposite quadrants each: the sign of the product says the class of any point."""
    torch.manual_seed(0)
    x = 1.5 * torch.randint(2, (2000, 2)).mul(2).sub(1) + 0.3 * torch.randn(2000, 2)
    y = (x.prod(1) > 0).long()
    model = GuidedDDPM(2, classes=2, hidden=(32, 32), timesteps=40, average=0.98)
    dc.fit(model, dc.from_tensors(x, y), steps=350, batch_size=256, lr=5e-3, quiet=True, evaluate=False)
    model.eval()
    asked = torch.arange(2)
    for weight, least in ((0.0, 0.95), (1.0, 0.98)):
        drawn = model.given(asked, weight).sample(1000, generator=Generator().manual_seed(0))
        assert float(((drawn.prod(1) > 0) == asked.repeat(500)).double().mean()) >= least
        for c in range(2):
            assert 0.3 < float((drawn[c::2, 0] > 0).double().mean()) < 0.7
    unconditional = model.sample(1000, generator=Generator().manual_seed(0))
    assert 0.4 < float((unconditional.prod(1) > 0).double().mean()) < 0.6


def test_the_gallery_has_a_row_for_each_class() -> None:
    model = stirred()
    rows = model.gallery(torch.zeros(4, 2, dtype=torch.float64), generator=Generator().manual_seed(0))
    assert list(rows) == ["class 0", "class 1", "class 2"]
    labels = torch.arange(3).repeat_interleave(4)
    drawn = model.given(labels, 1.0).sample(12, generator=Generator().manual_seed(0))
    assert torch.equal(torch.cat(list(rows.values())), drawn)


@pytest.mark.parametrize("labels", [torch.tensor([0, 3]), torch.tensor([-1, 0]), 3])
def test_classes_that_it_has_not_learned_are_refused(labels: Tensor | int) -> None:
    with pytest.raises(DataError, match=r"has the classes 0 to 2, got the class (3|-1)"):
        stirred().given(labels)


def test_labels_that_do_not_fit_are_refused_in_one_sentence() -> None:
    model, x = stirred(), torch.zeros(4, 2, dtype=torch.float64)
    with pytest.raises(DataError, match="got 3 rows for 4 examples"):
        model.sample(4, context=torch.tensor([0, 1, 2]))
    with pytest.raises(DataError, match="got 2 rows for 4 examples"):
        model.log_prob(x, context=torch.tensor([0, 1]))
    with pytest.raises(DataError, match="got 3 rows for 4 examples"):
        model.given(torch.arange(3)).sample(4)
    with pytest.raises(DataError, match=r"whole numbers, \(B,\); got real numbers"):
        model.given(torch.tensor([0.5]))
    with pytest.raises(DataError, match="classes 0 to 2, got the class 5"):
        dc.fit(GuidedDDPM(2, classes=3), dc.from_tensors(x, torch.tensor([0, 1, 2, 5])), steps=1, quiet=True)


@pytest.mark.parametrize("drop", [0.0, 1.0])
def test_both_sides_of_guidance_must_learn(drop: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        GuidedDDPM(2, classes=2, class_dropout=drop)


def test_a_model_without_classes_takes_no_context() -> None:
    model, batch = DDPM.example()
    with pytest.raises(UsageError, match="ddpm is not a conditional model and takes no context"):
        model.sample(2, context=torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="takes no context; leave it out"):
        model.log_prob(batch.x, context=torch.zeros(32, dtype=torch.long))
