"""Densities check values and options once, and tell how far their draws scatter."""

import math

import pytest
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError, Density, LikelihoodKind, UsageError, log_likelihood
from deepcanon.core.checks import check_support, is_gray
from deepcanon.models.flows.realnvp import RealNVP
from deepcanon.models.variational.vae import VAE


class Noisy(Density[Batch]):
    """A bound that is 0 plus noise of a known scale."""

    likelihood_kind: LikelihoodKind = "lower bound"

    @classmethod
    def example(cls) -> tuple["Noisy", Batch]:
        return cls(), Batch(torch.zeros(4096, 1))

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return 3 * torch.randn(len(x), generator=generator) / math.sqrt(samples or 1)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return torch.randn(n, 1, generator=generator)


@pytest.mark.parametrize("samples", [None, 4])
def test_the_error_of_draws_is_their_standard_deviation_over_the_root_of_the_examples(samples: int | None) -> None:
    torch.manual_seed(0)
    model, batch = Noisy.example()
    errors = torch.stack([model.error_of_draws(batch, samples) for _ in range(20)])
    exact = 3 / math.sqrt(samples or 1) / math.sqrt(len(batch))
    assert float(errors.mean()) == pytest.approx(exact, rel=0.05)


def test_evaluate_says_how_far_a_drawn_bound_may_be_off() -> None:
    model, batch = Noisy.example()
    found = [dc.evaluate(model, batch, seed=seed, size=512) for seed in range(40)]
    scatter = torch.tensor([each["nll"] for each in found]).std()
    assert found[0]["nll"] == found[0]["loss"]  # one bound, from the same draws
    errors = torch.tensor([each["nll_error"] for each in found])
    assert float(errors.mean()) == pytest.approx(3 / 64, rel=0.1)
    assert float(scatter) == pytest.approx(3 / 64, rel=0.35)


def test_an_exact_likelihood_has_no_error_and_draws_nothing() -> None:
    model, batch = RealNVP.example()
    assert float(model.error_of_draws(batch)) == 0
    assert "nll_error" not in dc.evaluate(model, batch)
    with pytest.raises(UsageError, match="the log_prob of realnvp is exact and draws nothing; leave out samples"):
        model.log_prob(batch.x, samples=4)
    assert torch.equal(log_likelihood(model, batch.x, samples=4, generator=Generator()), model.log_prob(batch.x))


def test_a_number_of_samples_is_checked() -> None:
    model, batch = VAE.example()
    with pytest.raises(UsageError, match="samples must be at least 1"):
        model.log_prob(batch.x, samples=0)
    with pytest.raises(UsageError, match="n must be at least 0"):
        model.sample(-1)


def test_densities_refuse_plain_gray_levels_and_take_dequantized_ones() -> None:
    plain, smooth = dc.load_data("digits"), dc.load_data("digits:dequantized")
    model = RealNVP(64, couplings=2, hidden=(4,))
    with pytest.raises(DataError, match=r"plain gray levels.*NAME:dequantized"):
        model.log_prob(plain.train.x[:8])
    with pytest.raises(DataError, match="plain gray levels"):
        model.prepare([plain.train])
    model.prepare([smooth.train])
    assert model.log_prob(smooth.train.x[:8]).isfinite().all()


@pytest.mark.parametrize(("levels", "gray"), [(256, True), (17, True), (16, True), (4, True), (1000, False)])
def test_gray_levels_are_told_by_their_grid(levels: int, gray: bool) -> None:
    generator = Generator().manual_seed(0)
    x = torch.randint(levels, (5, 1, 8, 8), generator=generator) / (levels - 1)
    assert is_gray(x) == gray
    assert not is_gray(x + 1)
    assert not is_gray(x[:, :, :1, :3])  # too few values to tell


@pytest.mark.parametrize(
    ("support", "right", "wrong"),
    [
        ("binary", [0.0, 1.0], [0.0, 0.5]),
        ("spins", [-1.0, 1.0], [0.0, 1.0]),
        ("categorical", [0.0, 7.0], [0.0, 0.5]),
        ("gray levels", [0.0, 255.0], [-1.0, 3.0]),
    ],
)
def test_values_outside_the_support_are_refused(support: str, right: list[float], wrong: list[float]) -> None:
    check_support(torch.tensor([right]), support, "it")
    with pytest.raises(DataError, match="it model"):
        check_support(torch.tensor([wrong]), support, "it")
