"""A bound that is drawn at random is measured by enough draws, however few the examples are."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.core import Batch, Evaluated, HeldOut, Terms
from deepcanon.core.toy import Toy
from deepcanon.models.diffusion.ddpm import DDPM


class Counted(Toy):
    """Says how many examples it is measured on."""

    seen: list[int]

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        self.seen.append(len(batch))
        return {}

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return self._log_prob(x)


@pytest.mark.slow
def test_few_examples_say_of_a_lower_bound_what_many_say() -> None:
    torch.manual_seed(0)
    model, batch = DDPM.example()
    few = batch.select(torch.arange(8))
    with torch.no_grad():
        truth = -float(model.log_prob(few.x.repeat(2000, 1)).mean())
    once = torch.tensor([dc.evaluate(model, few, seed=seed, draws=1)["nll"] for seed in range(8)])
    often = torch.tensor([dc.evaluate(model, few, seed=seed)["nll"] for seed in range(8)])
    assert once.std() > 0.5  # a bound so uncertain may come out above any truth
    assert often.std() < 0.1
    assert abs(float(often.mean()) - truth) < 0.05


def test_what_is_no_bound_is_measured_once_and_bounds_of_many_examples_are_too() -> None:
    model, _ = Counted.example()
    x: Tensor = torch.zeros(40, 2)
    for kind, wanted in (("exact", 40), ("estimate", 40), ("lower bound", 80)):
        model.seen, model.likelihood_kind = [], kind  # type: ignore[assignment]
        dc.evaluate(model, Batch(x), draws=100)
        assert sum(model.seen) == wanted
    for draws in (40, None):
        model.seen = []
        dc.evaluate(model, Batch(x), draws=draws)
        assert model.seen == [40]
    model.least_draws = 100
    model.seen = []
    dc.evaluate(model, Batch(x))
    assert sum(model.seen) == 80


class Rooted(Toy):
    """Reports the root of a mean of squares."""

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        return {"rmse": batch.x.square().mean().sqrt()}


def test_the_root_of_a_mean_is_that_over_all_batches() -> None:
    model, _ = Rooted.example()
    x = torch.tensor([[1.0, 1.0], [1.0, 1.0], [9.0, 9.0]])
    assert abs(dc.evaluate(model, Batch(x), size=2)["rmse"] - float(x.square().mean().sqrt())) < 1e-6


class Predicted(Toy):
    """Its loss is a mean over the entries that are there, its metric one over those held out."""

    def evaluated(self, batch: Any) -> Evaluated:
        return Evaluated({"seen": batch.x[batch.observed].mean()}, {"held_out": batch.y[batch.asked].mean()})


@pytest.mark.parametrize("size", [1, 2, 3])
def test_loss_and_metrics_have_weights_of_their_own(size: int) -> None:
    nan = math.nan
    x = torch.tensor([[1.0, 2.0, nan], [nan, nan, nan], [4.0, nan, 8.0]])
    y = torch.tensor([[nan, nan, 3.0], [5.0, 7.0, nan], [nan, nan, nan]])
    found = dc.evaluate(Predicted.example()[0], HeldOut(x, y), size=size)
    assert found["seen"] == pytest.approx((1 + 2 + 4 + 8) / 4)
    assert found["held_out"] == pytest.approx((3 + 5 + 7) / 3)


@pytest.mark.parametrize("name", ["vae", "conditional_vae", "full_covariance_vae", "flow_vae"])
def test_a_bound_that_is_the_loss_is_one_number_not_two_draws_of_it(name: str) -> None:
    torch.manual_seed(0)
    model, batch = dc.find(name).example()
    found = dc.evaluate(model, batch, draws=1)
    assert model.likelihood_kind == "lower bound"
    assert found["nll"] == pytest.approx(found["loss"], rel=1e-6)
    assert found["nll_error"] > 1e-4 * found["nll"]  # another draw would be another number


METHODS = ("augmentation", "curriculum", "lora", "noise_injection", "pruning", "regularized")


@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm_predictor", "graph_classifier", *METHODS])
def test_one_forward_pass_gives_loss_metrics_and_scores(name: str) -> None:
    torch.manual_seed(0)
    inner: Any
    inner, batch = dc.find({"augmentation": "cnn"}.get(name, "mlp") if name in METHODS else name).example()
    model: Any = dc.find(name)(inner) if name in METHODS else inner
    expected = {**model.eval().loss(batch), **model.metrics(batch)}
    passes: list[int] = []
    inner.register_forward_hook(lambda *_: passes.append(1))
    found = dc.evaluate(model, batch)
    assert len(passes) == 1
    for measure, value in expected.items():
        assert found[measure] == pytest.approx(value.item(), rel=1e-5)
    assert {"balanced_accuracy", "r2"} & found.keys()


@pytest.mark.parametrize("name", ["bagging", "mc_dropout"])
def test_an_ensemble_predicts_once_for_loss_metrics_and_scores(name: str) -> None:
    torch.manual_seed(0)
    model: Any
    model, batch = dc.find(name).example()
    expected = {**model.eval().loss(batch), **model.metrics(batch)}
    calls: list[int] = []
    predictions = model.predictions

    def counted(*inputs: Any, **words: Any) -> Any:
        calls.append(1)
        return predictions(*inputs, **words)

    model.predictions = counted
    found = dc.evaluate(model, batch)
    assert len(calls) == 1
    for measure, value in expected.items():
        assert found[measure] == pytest.approx(value.item(), rel=1e-5)


def test_a_bound_inside_a_method_is_one_number() -> None:
    torch.manual_seed(0)
    regularized: Any = dc.find("regularized")
    inner, batch = dc.find("vae").example()
    found = dc.evaluate(regularized(inner, l2=(0.0,)), batch)
    assert found["reconstruction"] + found["kl"] == pytest.approx(found["nll"], rel=1e-6)


def test_distances_of_batches_do_not_depend_on_the_order_of_a_file() -> None:
    """The first half of the test images of MNIST is by other writers than the second; here the rows are sorted."""
    torch.manual_seed(0)
    model: Any = dc.find("gan")(features=1, hidden=(4,))
    x = torch.randn(2000, 1).sort(0).values
    given = dc.evaluate(model, Batch(x), size=200)
    mixed = dc.evaluate(model, Batch(x[torch.randperm(2000)]), size=200)
    assert given["energy_distance"] == pytest.approx(mixed["energy_distance"], rel=0.2)
    model.in_random_order = False
    assert dc.evaluate(model, Batch(x), size=200)["energy_distance"] > 1.5 * given["energy_distance"]
