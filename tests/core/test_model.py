"""The base class records arguments, knows what it batch_type, and makes metrics out of methods."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, Labeled, Model, Terms
from deepcanon.core.toy import Toy


class Base(Model[Labeled]):
    """A classifier with fixed logits."""

    def __init__(self, classes: int, *, hidden: tuple[int, ...] = (3,), name_of_part: str | None = None) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.linspace(0, 1, classes, dtype=torch.float64))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        return cls(2), Labeled(torch.zeros(4, 1), torch.tensor([0, 1, 1, 1]))

    def loss(self, batch: Labeled) -> Terms:
        return {"nll": nn.functional.cross_entropy(self.logits.expand(len(batch), -1), batch.y)}

    def predict(self, x: Tensor, how: str = "mode", generator: Any = None) -> Tensor:
        logits = self.logits.expand(len(x), -1)
        return logits.argmax(-1) if how == "mode" else logits.softmax(-1)


class Derived(Base):
    """A subclass with arguments of its own."""

    def __init__(self, classes: int, extra: float = 0.5) -> None:
        super().__init__(classes + 1, hidden=(9, 9))
        self.extra = extra


class Heir(Derived):
    """A subclass without a constructor."""


def test_arguments_are_recorded_as_given_with_defaults() -> None:
    assert dict(Base(4, hidden=(1, 2)).hparams) == {"classes": 4, "hidden": (1, 2), "name_of_part": None}
    assert dict(Derived(4).hparams) == {"classes": 4, "extra": 0.5}
    assert dict(Heir(classes=4, extra=1.0).hparams) == {"classes": 4, "extra": 1.0}


def test_recording_keeps_signature_and_copies() -> None:
    assert list(inspect.signature(Base).parameters) == ["classes", "hidden", "name_of_part"]
    model = Heir(4)
    twin = copy.deepcopy(model)
    assert dict(twin.hparams) == dict(model.hparams)
    with pytest.raises(TypeError):
        Base()  # type: ignore[call-arg]


def test_hparams_cannot_be_changed_from_outside() -> None:
    with pytest.raises(TypeError):
        Base(4).hparams["classes"] = 5  # type: ignore[index]


def test_a_model_has_a_batch_type() -> None:
    assert Base.batch_type() is Derived.batch_type() is Heir.batch_type() is Labeled
    assert Toy.batch_type() is Batch
    assert issubclass(Labeled, Batch)
    assert issubclass(Batch, AnyBatch)

    class Whatever(Model[Any]):
        pass

    assert Whatever.batch_type() is AnyBatch


def test_loss_and_example_are_abstract() -> None:
    class Empty(Model[Batch]):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Empty()  # type: ignore[abstract]


def test_metrics_of_a_classifier_against_their_definitions() -> None:
    model, batch = Base.example()
    metrics = model.metrics(batch)
    log_probabilities = model.logits.detach().log_softmax(0)
    assert metrics["accuracy"].item() == 0.75
    expected = -log_probabilities[batch.y].mean()
    torch.testing.assert_close(metrics["nll"], expected, rtol=0, atol=1e-14)


def test_metrics_of_a_regression_against_their_definitions() -> None:
    class Mean(Base):
        def predict(self, x: Tensor, how: str = "mode", generator: Any = None) -> Tensor:
            return torch.tensor([[1.0, 2.0], [0.0, 0.0]])

    batch = Labeled(torch.zeros(2, 1), torch.tensor([[1.0, 0.0], [3.0, 4.0]]))
    metrics = Mean(2).metrics(batch)
    assert metrics["mse"].item() == pytest.approx((4 + 25) / 2)
    assert metrics["mae"].item() == pytest.approx((2 + 7) / 2)


def test_metrics_of_a_density() -> None:
    model, batch = Toy.example()
    torch.testing.assert_close(model.metrics(batch)["nll"], -model.log_prob(batch.x).mean())


def test_the_toy_is_the_standard_normal_density() -> None:
    model, batch = Toy.example()
    expected = torch.distributions.Normal(model.mean, 1.0).log_prob(batch.x).sum(-1)
    torch.testing.assert_close(model.log_prob(batch.x), expected)
