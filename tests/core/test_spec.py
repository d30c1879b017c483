"""Models as JSON and back, and constructor arguments that come from the data."""

from __future__ import annotations

import json
from typing import Any, Self

import pytest
import torch
from torch import nn

from deepcanon.core import Batch, Blueprint, Model, Terms, UsageError, arguments_of, describe, with_sizes
from deepcanon.core.toy import Toy


class Wrapper(Model[Batch]):
    """Holds another model and every kind of argument."""

    def __init__(
        self,
        model: Model[Any],
        hidden: tuple[int, ...] = (),
        nested: tuple[tuple[str, int], ...] = (),
        options: dict[str, float] | None = None,
        flag: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.scale = nn.Parameter(torch.ones(()))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        toy, batch = Toy.example()
        return cls(toy), batch

    def loss(self, batch: Batch) -> Terms:
        return {"scaled": self.scale * self.model.loss(batch)["nll"]}


CLASSES: dict[str, type[Model[Any]]] = {"Toy": Toy, "Wrapper": Wrapper}


def test_a_model_inside_a_model_comes_back_through_json() -> None:
    inner = Wrapper(Toy(3), hidden=(4, 5), nested=(("a", 1),), options={"x": 0.1}, flag=True)
    spec = json.loads(json.dumps(describe(Wrapper(inner))))
    again = Blueprint.from_json(spec, CLASSES.__getitem__).build()
    assert describe(again) == describe(Wrapper(inner))
    assert isinstance(again, Wrapper)
    assert again.model.hparams["hidden"] == (4, 5)
    assert again.model.hparams["nested"] == (("a", 1),)
    assert again.model.hparams["options"] == {"x": 0.1}
    assert again.model.hparams["flag"] is True


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(UsageError, match="JSON-able or a Model, got Tensor"):
        describe(Wrapper(Toy(2), options=torch.ones(1)))  # type: ignore[arg-type]


def test_an_unknown_argument_in_a_spec_is_named() -> None:
    with pytest.raises(UsageError, match="no argument depth"):
        Blueprint.from_json({"model": "Toy", "arguments": {"features": 2, "depth": 1}}, CLASSES.__getitem__).build()


def test_annotations_are_resolved() -> None:
    assert arguments_of(Wrapper)["hidden"].annotation == tuple[int, ...]


def test_sizes_come_from_the_data_and_may_not_be_contradicted() -> None:
    assert with_sizes(Toy, {"features": 4, "classes": 2}, {}, "moons") == {"features": 4}
    assert with_sizes(Toy, {"features": 4}, {"features": 4}, "moons") == {"features": 4}
    with pytest.raises(UsageError, match="features is 4 in moons, but 5 was given"):
        with_sizes(Toy, {"features": 4}, {"features": 5}, "moons")
    with pytest.raises(UsageError, match="Toy needs features, which text does not have; it has vocab"):
        with_sizes(Toy, {"vocab": 30}, {}, "text")
