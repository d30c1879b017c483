"""Each law of form is shown a model that breaks it and names the fault."""

from typing import Any

import torch
from torch import nn

from deepcanon.core import Batch, Terms
from deepcanon.core.model import Model
from deepcanon.core.toy import Toy
from deepcanon.laws.documentation import constructor_is_the_configuration, docstring_is_complete, spec_round_trip
from deepcanon.laws.outcome import Law, Outcome


def verdict(law: Law, cls: type[Model[Any]]) -> Outcome:
    found = law(*cls.example())
    assert found is not None
    return found


def test_the_toy_is_well_formed() -> None:
    for law in (docstring_is_complete, constructor_is_the_configuration, spec_round_trip):
        assert verdict(law, Toy).holds


class NoEquation(Toy):
    """A Gaussian with a learned mean.

    References:
        | Gauss, 1809

    Arguments:
        features: The dimension.
    """


class NoReference(Toy):
    r"""A Gaussian with a learned mean.

    .. math:: x

    Arguments:
        features: The dimension.
    """


class NoArgument(Toy):
    r"""A Gaussian with a learned mean.

    .. math:: features: x

    References:
        | Theoria motus (Gauss, 1809)

    Arguments:
        other: Not an argument.
    """


class NoSentence(Toy):
    r"""A Gaussian

    .. math:: x

    References:
        | https://example.org

    Arguments:
        features: The dimension.
    """


def test_docstrings_that_lack_a_part_are_named() -> None:
    missing = {
        NoEquation: "no equation",
        NoReference: "no References",
        NoArgument: "the argument features is not described",
        NoSentence: "the first line is no sentence",
    }
    for cls, words in missing.items():
        found = verdict(docstring_is_complete, cls)
        assert found.measured == 1, cls
        assert words in found.detail


class HidesArguments(Toy):
    def __init__(self, features: int, **options: Any) -> None:
        super().__init__(features)


class Unannotated(Toy):
    def __init__(self, features) -> None:  # type: ignore[no-untyped-def]
        super().__init__(features)


class SpeaksForTheTrainer(Toy):
    def __init__(self, features: int, lr: float = 0.1) -> None:
        super().__init__(features)


def test_constructors_that_are_no_configuration_are_named() -> None:
    assert "**options" in verdict(constructor_is_the_configuration, HidesArguments).detail
    assert "features is not annotated" in verdict(constructor_is_the_configuration, Unannotated).detail
    assert "lr is a word of the trainer" in verdict(constructor_is_the_configuration, SpeaksForTheTrainer).detail
    for cls in (HidesArguments, Unannotated, SpeaksForTheTrainer):
        assert not verdict(constructor_is_the_configuration, cls).holds


class ForgetsAnArgument(Toy):
    def __init__(self, features: int) -> None:
        super().__init__(features)
        del self._hparams["features"]


class AltersAnArgument(Toy):
    def __init__(self, features: int) -> None:
        super().__init__(features)
        self._hparams["features"] = features + 1


class Grows(Toy):
    """Its example is no longer what its constructor builds."""

    @classmethod
    def example(cls) -> Any:
        model, batch = super().example()
        model.mean = nn.Parameter(torch.zeros(3))
        return model, batch


class NeedsCode(Toy):
    def __init__(self, features: int, kind: Any = nn.ReLU) -> None:
        super().__init__(features)


class AppendsToItsList(Model[Batch]):
    def __init__(self, hidden: Any) -> None:
        super().__init__()
        hidden.append(1)
        self.net = nn.Linear(sum(hidden), 1)

    @classmethod
    def example(cls) -> Any:
        return cls([2]), Batch(torch.ones(2, 3))

    def loss(self, batch: Batch) -> Terms:
        return {"loss": self.net(batch.x).mean()}


def test_a_model_that_cannot_be_rebuilt_is_caught() -> None:
    for cls in (ForgetsAnArgument, AltersAnArgument, Grows, NeedsCode, AppendsToItsList):
        assert not verdict(spec_round_trip, cls).holds, cls
    assert "the tensor mean is not the same again" in verdict(spec_round_trip, Grows).detail
    assert "JSON-able" in verdict(spec_round_trip, NeedsCode).detail


class Pair(Model[Batch]):
    """A model made of two models."""

    def __init__(self, left: Toy, others: tuple[Toy, ...]) -> None:
        super().__init__()
        self.parts = nn.ModuleList([left, *others])

    @classmethod
    def example(cls) -> Any:
        return cls(Toy(2), (Toy(3), Toy(4))), Batch(torch.ones(2, 2))

    def loss(self, batch: Batch) -> Terms:
        return {"nll": batch.x.mean()}


def test_models_inside_models_are_rebuilt_too() -> None:
    found = verdict(spec_round_trip, Pair)
    assert found.holds
    assert "3 tensors" in found.detail
