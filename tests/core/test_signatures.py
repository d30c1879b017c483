"""A method that cannot be called as its role says is refused, with the signature that it should have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Model, Terms, UsageError
from deepcanon.core.signatures import check_signatures
from deepcanon.core.toy import Toy
from deepcanon.core.toy_classifier import ToyClassifier


class Own(Model[Batch]):
    """A model that says nothing but its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(), Batch(torch.zeros(2, 1))

    def loss(self, batch: Batch) -> Terms:
        return {"nll": self.weight}


def with_method(name: str, method: Any, **others: Any) -> Model[Any]:
    return type("Own", (Own,), {name: method, **others})()  # type: ignore[no-any-return]


WRONG: dict[str, tuple[str, Any, str]] = {
    "predict without how": ("predict", lambda self, x: x, r"predict\(inputs, how=\.\.\.\).*keyword argument 'how'"),
    "predict of two": ("predict", lambda self, x, z, how="mode": x, "missing a required argument: 'z'"),
    "sample without generator": ("sample", lambda self, n: n, "keyword argument 'generator'; write it as sample"),
    "score of scikit-learn": ("score", lambda self, x, y: x, "missing a required argument: 'y'"),
    "decode of nothing": ("decode", lambda self: 0, "too many positional arguments"),
    "metrics of nothing": ("metrics", lambda self: {}, "too many positional arguments"),
    "encode is a layer": ("encode", nn.Linear(1, 1), r"encode is a Linear where a model has the method encode\(x\)"),
    "filters is a number": ("filters", 3, r"filters is a int where a model has the method filters\(\)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_method_that_cannot_be_called_is_refused(case: str) -> None:
    name, method, sentence = WRONG[case]
    with pytest.raises(UsageError, match=rf"Own\.{name} .*{sentence}|Own\.{sentence}"):
        check_signatures(with_method(name, method))


RIGHT: dict[str, Callable[[], Model[Any]]] = {
    "no method": Own,
    "a density": lambda: Toy(2),
    "a classifier": lambda: ToyClassifier(2, 2),
    "predict without generator": lambda: with_method("predict", lambda self, x, how="mode": x),
    "an exact likelihood": lambda: with_method("log_prob", lambda self, x: x, likelihood_kind="exact"),
    "anything": lambda: with_method("predict", lambda self, *args, **kwargs: args[0]),
    "a half of a role": lambda: with_method("directions", torch.zeros(2)),  # without nearest it is no such role
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_method_that_can_be_called_is_let_pass(case: str) -> None:
    check_signatures(RIGHT[case]())


def test_what_is_drawn_is_asked_for_draws() -> None:
    def log_prob(self: Model[Any], x: Tensor) -> Tensor:
        return x

    with pytest.raises(UsageError, match="keyword argument 'samples'"):
        check_signatures(with_method("log_prob", log_prob, likelihood_kind="lower bound"))


def test_a_model_of_two_inputs_predicts_from_both() -> None:
    model = with_method("predict", lambda self, x, graph, how="mode": x)
    check_signatures(model, inputs=2)
    with pytest.raises(UsageError, match="missing a required argument: 'graph'"):
        check_signatures(model)
