"""Densities check values and options once, and tell how far their draws scatter."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core import Batch, DataError, Density, Labeled, LikelihoodKind, Model, UsageError, Videos, log_likelihood
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
    for form in (x, 2 * x - 1, x - 0.5, x * (levels - 1), x.flatten(1)):
        assert is_gray(form) == gray
    assert not is_gray(x + 1e-3 * torch.rand(x.shape, generator=generator))
    assert not is_gray(x[:, :, :1, :3])  # too few values to tell


def test_rounded_tables_and_real_images_are_not_gray_levels() -> None:
    generator = Generator().manual_seed(0)
    rounded = (5 + torch.randn(200, 4, generator=generator)).mul(10).round() / 10  # as of flowers, in millimeters
    assert not is_gray(rounded)
    columns = torch.randint(9, (200, 20), generator=generator) * torch.linspace(0.3, 1.7, 20).exp()
    assert not is_gray(columns)  # each has a grid of its own
    assert not is_gray(torch.linspace(-1, 1, 64).reshape(1, 1, 8, 8))  # a grid, but no value occurs twice
    assert not is_gray(torch.zeros(3, 64))


@pytest.mark.parametrize("name", [entry.name for entry in catalogue.entries()])
def test_every_density_of_reals_refuses_gray_levels_and_bytes(name: str) -> None:
    cls: Any = dc.find(name)
    model, example = cls.example()
    if not isinstance(model, Density) or model.support != "real" or not hasattr(model, "features"):
        return
    levels = torch.randint(256, (40, 8, 8), generator=Generator().manual_seed(0))
    for x in (levels, levels.to(torch.uint8)):
        with pytest.raises(DataError, match="density of real numbers, but the data are"):
            model.check_values(x)
    if type(model).prepare is not Model.prepare:
        batch: Any = Labeled(levels.to(torch.uint8), torch.zeros(40).long())
        if isinstance(example, Videos):
            batch = replace(example, x=torch.randint(256, example.x.shape, dtype=torch.uint8))
        with pytest.raises(DataError, match="density of real numbers, but the data are"):
            model.prepare([batch])


def test_a_density_is_not_trained_on_gray_levels_in_whole_numbers() -> None:
    data = dc.load_data("digits:levels")
    with pytest.raises(DataError, match="plain gray levels"):
        dc.fit(RealNVP(64, couplings=2, hidden=(4,)), data, steps=1, quiet=True)


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


def test_the_parts_of_mixed_values_are_checked_each_by_its_own_kind() -> None:
    right = torch.tensor([[0.3, 2.0, 1.5], [0.9, 0.0, 2.5]])
    check_support(right, "mixed", "it", (1,))
    with pytest.raises(DataError, match="categories, which are whole numbers"):
        check_support(right, "mixed", "it", (0,))
    with pytest.raises(DataError, match="density of real numbers, but the data are zeros and ones"):
        check_support(torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.0]]), "mixed", "it", (1,))
