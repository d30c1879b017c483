"""Likelihoods with their kind and unit: bits per dimension against entropies, bounds below exact values."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
import safetensors.torch
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.catalogue import find
from deepcanon.comparison.differences import FILE as EXAMPLES
from deepcanon.comparison.measures import Measured, bits_per_dimension, measure
from deepcanon.comparison.quality import Yardstick
from deepcanon.comparison.support import Form, Forms
from deepcanon.core import (
    Absorb,
    Batch,
    Context,
    DataError,
    Labeled,
    LikelihoodKind,
    Model,
    Recipe,
    Sequences,
    Support,
    Terms,
    Turn,
)
from deepcanon.data import Dataset, from_tensors, load_data
from deepcanon.runs.folder import RunFolder


class Levels(Model[Batch]):
    """The density that is constant on each gray level: what a table of their frequencies becomes by dequantizing."""

    recipe = Recipe(epochs=1, batch_size=10_000)
    likelihood_kind: LikelihoodKind = "exact"
    LEVELS = 17
    shares: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("shares", torch.full((self.LEVELS,), 1 / self.LEVELS))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(features=3), Batch(torch.rand(8, 3))

    @property
    def support(self) -> Support:
        return "real"

    def turns(self) -> list[Turn[Batch]]:
        return [Absorb(self.absorb)]

    def absorb(self, batch: Batch) -> None:
        counts = (batch.x * self.LEVELS).floor().long().flatten().bincount(minlength=self.LEVELS)
        self.shares.copy_((counts + 1) / (counts + 1).sum())

    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x).mean()}

    def log_prob(
        self,
        x: Tensor,
        *,
        context: Context | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        density = self.shares * self.LEVELS  # a level is 1 / LEVELS wide
        return density[(x.flatten(1) * self.LEVELS).floor().long()].log().sum(1)


class Silent(Levels):
    """The same, but its metrics keep the likelihood to themselves, and it is infinite if told so."""

    def loss(self, batch: Batch) -> Terms:
        return {"zero": torch.zeros(())}

    def metrics(self, batch: Batch) -> Terms:
        return {}


class Impossible(Silent):
    def log_prob(self, x: Tensor, **_: Any) -> Tensor:
        return torch.full((len(x),), -math.inf)


def trained(model: Model[Any], data: Dataset[Any], form: Form, folder: Path, judged: bool = False) -> Measured:
    dc.fit(model, data, out=folder, quiet=True, epochs=1)
    yardstick = Yardstick.of(data.train.x, data.split("test").x) if judged else None
    return measure(model.eval(), data, form, RunFolder.open(folder), yardstick)


def test_a_uniform_density_needs_the_bits_of_a_gray_level() -> None:
    assert bits_per_dimension(0.0, dimensions=784, levels=256) == 8
    assert bits_per_dimension(64 * math.log(0.5), dimensions=64) == pytest.approx(1)  # fair bits


def test_bits_per_dimension_are_the_cross_entropy_of_gray_levels(tmp_path: Path) -> None:
    """The levels' frequencies as a density of dequantized values must cost what they cost as a code."""
    forms = Forms("digits")
    model = Levels(features=64)
    likelihood = trained(model, forms["dequantized"], "dequantized", tmp_path / "run")["likelihood"]
    levels = (forms["plain"].split("test").x * 16).round().long()
    code = -model.shares.double().log2()[levels].mean()
    assert likelihood is not None
    assert likelihood["kind"] == "exact"
    assert likelihood["bits"] == pytest.approx(float(code), rel=1e-5)


def test_what_evaluate_reports_is_taken_and_else_log_prob_is_asked(tmp_path: Path) -> None:
    data = Forms("digits")["dequantized"]
    spoken, silent = Levels(features=64), Silent(features=64)
    first = trained(spoken, data, "dequantized", tmp_path / "spoken")
    second = trained(silent, data, "dequantized", tmp_path / "silent")
    assert first["likelihood"] is not None
    assert second["likelihood"] is not None
    assert first["likelihood"]["nats"] == -dc.evaluate(spoken, data.split("test"))["nll"]
    assert "nll" not in second["test"]
    assert second["likelihood"]["nats"] == pytest.approx(first["likelihood"]["nats"], rel=1e-6)
    with pytest.raises(DataError, match="-inf"):
        trained(Impossible(features=64), data, "dequantized", tmp_path / "impossible")


def test_a_bound_lies_below_a_tighter_one_and_below_the_exact_value(tmp_path: Path) -> None:
    """Without hidden layers a Gaussian VAE is probabilistic PCA, whose likelihood is a Gaussian's."""
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)) @ torch.tensor(
        [[2.0, 0.3, 0.1], [0.0, 1.0, 0.4], [0.0, 0.0, 0.5]]
    )
    data = replace(from_tensors(x), test=Batch(x[:100]))
    torch.manual_seed(0)
    model: Any = dc.find("vae")(features=3, latent=1, hidden=())
    likelihood = trained(model, data, "plain", tmp_path / "run")["likelihood"]
    assert likelihood is not None
    weight, scale = model.decoder.net[-1].weight, model.decoder.likelihood.scale
    exact = torch.distributions.MultivariateNormal(
        model.decoder.net[-1].bias, weight @ weight.T + scale**2 * torch.eye(3)
    )
    truth = exact.log_prob(x[:100]).mean().item()
    assert likelihood["kind"] == "lower bound"
    assert likelihood["samples"] == 64
    assert likelihood["tighter"] is not None
    assert likelihood["nats"] < likelihood["tighter"] < truth + 0.01
    assert likelihood["bits"] is None


def test_the_error_of_a_bound_is_that_of_the_draws_by_which_it_was_measured(tmp_path: Path) -> None:
    """Not that of a draw at every timestep, which is smaller and takes a network as many times."""
    model: Any
    model, batch = find("ddpm").example()
    data = replace(from_tensors(batch.x), train=batch, valid=None, test=batch)
    found = trained(model, data, "plain", tmp_path / "run")
    assert found["likelihood"] is not None
    assert found["likelihood"]["nats"] == -(found["test"]["nll"] or 0.0)
    assert found["likelihood"]["error"] == found["test"]["nll_error"]
    assert float(model.error_of_draws(batch)) != pytest.approx(found["likelihood"]["error"], rel=0.1)


def test_a_model_without_a_method_has_no_such_number(tmp_path: Path) -> None:
    digits = Forms("digits")
    answer = trained(dc.find("softmax_regression")(features=64, classes=10), digits["plain"], "plain", tmp_path / "a")
    assert answer["likelihood"] is None
    assert answer["drawn"] is None
    assert answer["predictions"] is not None
    gan = trained(dc.find("gan")(features=64, hidden=(8,)), digits["dequantized"], "dequantized", tmp_path / "b", True)
    assert gan["likelihood"] is None
    assert gan["predictions"] is None
    assert gan["drawn"] is not None
    assert gan["drawn"]["per_second"] > 0
    assert gan["metrics"] == ["energy_distance"]
    assert (gan["steps"], gan["planned"]) == (10, 10)


def test_sequences_and_time_series_have_a_likelihood_per_predicted_token_or_step(tmp_path: Path) -> None:
    pairs, test = load_data("dates"), load_data("dates").split("test")
    few = replace(pairs, train=pairs.train.select(torch.arange(64)), valid=None, test=test.select(torch.arange(40)))
    translator: Any = find("seq2seq_attention")(**{**few.sizes, "units": 8, "embedding": 4})
    found = trained(translator, few, "plain", tmp_path / "pairs")["likelihood"]
    assert found is not None
    assert (found["kind"], found["per"], found["given"]) == ("exact", "token", "a source")
    held_out: Any = few.split("test")
    with torch.no_grad():
        nats = translator.log_prob(held_out.y, lengths=held_out.y_lengths, context=(held_out.x, held_out.lengths))
    assert found["nats"] == pytest.approx(float(nats.sum()) / held_out.weight, rel=1e-5)

    model: Any
    model, batch = find("deepar").example()
    whole = from_tensors(batch.x, lengths=batch.lengths, origins=batch.origins)
    series = replace(whole, train=batch, valid=None, test=batch)
    found = trained(model, series, "plain", tmp_path / "series")["likelihood"]
    assert found is not None
    assert (found["kind"], found["per"], found["given"]) == ("exact", "step", None)
    with torch.no_grad():
        nats = model.log_prob(batch)
    assert found["nats"] == pytest.approx(float(nats.sum()) / batch.weight, rel=1e-5)

    model, batch = find("video_flow").example()
    whole = from_tensors(batch.x, lengths=batch.lengths)
    videos = replace(whole, train=batch, valid=None, test=batch, preprocessing={"levels": 4})
    found = trained(model, videos, "dequantized", tmp_path / "videos")["likelihood"]
    assert found is not None
    assert (found["kind"], found["per"], found["given"]) == ("exact", "frame", None)
    with torch.no_grad():
        nats = model.log_prob(batch.x, lengths=batch.lengths).sum() / batch.weight
    assert found["nats"] == pytest.approx(float(nats), rel=1e-5)
    assert found["bits"] == pytest.approx(bits_per_dimension(float(nats), dimensions=4, levels=4), rel=1e-5)


def test_a_method_around_a_conditional_model_is_measured_as_that_model(tmp_path: Path) -> None:
    model, batch = find("conditional_vae").example()
    data = from_tensors(batch.x, batch.y)
    data = replace(data, train=batch, valid=None, test=batch)
    torch.manual_seed(0)
    found = trained(find("regularized")(model), data, "plain", tmp_path / "run")
    likelihood = found["likelihood"]
    assert likelihood is not None
    assert (likelihood["kind"], likelihood["given"], likelihood["samples"]) == ("lower bound", "classes", 64)
    assert likelihood["error"] > 0
    assert found["drawn"] is not None


def test_what_each_sequence_or_series_contributes_has_the_mean_that_is_shown(tmp_path: Path) -> None:
    """Of rows of unequal lengths: the mean over rows is that over tokens, or steps."""
    tokens = torch.randint(0, 5, (30, 12), generator=Generator().manual_seed(0))
    rows = Sequences(tokens, 2 + torch.arange(30) % 10)
    whole = from_tensors(tokens, lengths=rows.lengths)
    text = replace(whole, train=rows, valid=None, test=rows)
    found = trained(find("lstm")(vocab=5, units=4, embedding=3), text, "plain", tmp_path / "text")
    model, batch = find("deepar").example()
    series = from_tensors(batch.x, lengths=batch.lengths, origins=batch.origins)
    forecasts = trained(model, replace(series, train=batch, valid=None, test=batch), "plain", tmp_path / "series")
    for measured, place, count in ((found, "text", 30), (forecasts, "series", len(batch))):
        each = safetensors.torch.load_file(tmp_path / place / EXAMPLES)["log_likelihood"]
        assert measured["likelihood"] is not None
        assert len(each) == count
        assert float(each.mean()) == pytest.approx(measured["likelihood"]["nats"], rel=1e-5)


def test_probabilities_that_are_too_small_for_their_type_count_as_the_loss_counts_them(tmp_path: Path) -> None:
    """Logits far apart, and one example on the wrong side: its probability is 0 in single precision."""
    x = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    held_out = Labeled(x, torch.tensor([1, 0, 0, 0]))
    data = replace(from_tensors(x, held_out.y), valid=None, test=held_out)
    model: Any = find("softmax_regression")(features=1, classes=2)
    run = dc.fit(model, data, out=tmp_path / "run", quiet=True, pictures=False)
    del run
    with torch.no_grad():
        model.linear.weight.copy_(torch.tensor([[-150.0], [150.0]]))
        model.linear.bias.zero_()
    folder = RunFolder.open(tmp_path / "run")
    measure(model, data, "plain", folder, None)
    losses = safetensors.torch.load_file(tmp_path / "run" / EXAMPLES)["log_loss"]
    assert losses.tolist() == pytest.approx([0.0, 300.0, 0.0, 0.0])
