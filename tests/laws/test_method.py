"""The laws of methods catch what a method must not do to the model it wraps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
import torch
from torch import Tensor, nn

from deepcanon import laws, methods
from deepcanon.catalogue import find
from deepcanon.core import (
    Context,
    Descend,
    Labeled,
    Model,
    SemiBatch,
    Terms,
    Turn,
    UsageError,
    arguments_of,
    given_batch,
)
from deepcanon.core.toy import Toy
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.laws.method import (
    check_method,
    conditioned_as_the_wrapped_model,
    null_setting_is_declared,
    null_setting_predicts_as_the_plain_model,
    null_setting_trains_as_the_plain_model,
    only_declared_parameters_change,
    precision_of_the_model_is_kept,
)
from deepcanon.laws.outcome import Law, Outcome
from deepcanon.methods.fixmatch import FixMatch
from deepcanon.methods.lora import LoRA
from deepcanon.methods.pi_model import PiModel


def verdict(check: Law, cls: type[Model[Any]]) -> Outcome:
    torch.manual_seed(0)
    found = check(*cls.example())
    assert found is not None
    return found


@pytest.mark.parametrize("method", [FixMatch, PiModel, LoRA])
def test_our_methods_keep_the_laws(method: type[Model[Any]]) -> None:
    torch.manual_seed(0)
    found = laws.check(method, "method")
    assert [outcome.law for outcome in found if not outcome.holds] == []
    assert len(found) == (5 if method is LoRA else 6)  # LoRA trains no parameter of the model it wraps


class ForgetsItsNull(PiModel):
    null: ClassVar[Mapping[str, Any]] = {}


class NamesNoArgument(PiModel):
    null: ClassVar[Mapping[str, Any]] = {"strenght": 0.0}


def test_a_method_without_a_null_setting_is_named() -> None:
    assert not verdict(null_setting_is_declared, ForgetsItsNull).holds
    found = verdict(null_setting_is_declared, NamesNoArgument)
    assert (found.holds, found.detail) == (False, "null names strenght, which is not an argument")


class AddsAnIdleTerm(PiModel):
    """A term of weight zero is still a term, and it draws."""

    def loss(self, batch: Labeled) -> Terms:
        terms = super().loss(batch)
        if isinstance(batch, SemiBatch) and "consistency" not in terms:
            terms["consistency"] = 0.0 * self.unlabeled_term(batch.unlabeled)[1]
        return terms


class DrawsForNothing(PiModel):
    """The loss is right, but noise is drawn and thrown away: the run would part from the plain one."""

    def loss(self, batch: Labeled) -> Terms:
        terms = super().loss(batch)
        torch.randn(3)
        return terms


class PerturbsAlways(PiModel):
    """Its labeled examples are perturbed although the null setting says no."""

    def loss(self, batch: Labeled) -> Terms:
        return super().loss(Labeled(batch.x + 0.1 * torch.randn_like(batch.x), batch.y))


class StartsElsewhere(LoRA[Labeled]):
    """Both factors start at random, so that the model does not start as it was."""

    null: ClassVar[Mapping[str, Any]] = {"alpha": 8.0}

    def __init__(self, model: Model[Any], rank: int = 4, alpha: float = 8.0, layers: tuple[str, ...] = ("*",)) -> None:
        super().__init__(model, rank, alpha, layers)
        for name, parameter in self.named_parameters():
            if name.endswith(".up"):
                nn.init.normal_(parameter)


class Deaf(PiModel):
    """It does not pass on the method of the wrapped model."""

    def __init__(self, model: Model[Any], weight: float = 1.0, labeled: Any = "weak") -> None:
        super().__init__(model, weight, labeled=labeled)
        del self.__dict__["predict"]


class Promises(PiModel):
    """A method that the wrapped model does not have."""

    def sample(self, n: int, *, context: Context | None = None, generator: torch.Generator | None = None) -> Tensor:
        return torch.randn(n, 2, generator=generator)


@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        (AddsAnIdleTerm, "loss consistency in training is not in the plain model"),
        (DrawsForNothing, "loss nll in training uses up other random numbers than the plain model"),
        (PerturbsAlways, "loss nll in training is not the plain model's"),
        (StartsElsewhere, "predict mean in eval mode is not the plain model's"),
        (Deaf, "the method predict is missing"),
        (Promises, "the method sample is new"),
    ],
)
def test_a_null_setting_that_does_something_is_named(mutant: type[Model[Any]], words: str) -> None:
    found = verdict(null_setting_predicts_as_the_plain_model, mutant)
    assert words in found.detail
    assert not found.holds


class DecaysTheWeights(PiModel):
    """Its loss is the plain model's, but after every step the weights shrink."""

    def turns(self) -> Sequence[Turn[SemiBatch]]:
        (turn,) = super().turns()
        assert isinstance(turn, Descend)
        turn.after = self.shrink
        return [turn]

    def shrink(self) -> None:
        for parameter in self.model.parameters():
            parameter.mul_(0.999)


class LearnsTwice(PiModel):
    def turns(self) -> Sequence[Turn[SemiBatch]]:
        return [*super().turns(), *super().turns()]


class PreparesBadly(PiModel):
    """Looking at the data once before the training moves the generator."""

    def prepare(self, data: Any) -> None:
        torch.randn(1)
        super().prepare(data)


def test_a_null_setting_that_learns_otherwise_is_named() -> None:
    for mutant in (DecaysTheWeights, LearnsTwice):
        found = verdict(null_setting_trains_as_the_plain_model, mutant)
        assert "first.weight ends otherwise" in found.detail
        assert not found.holds
        assert verdict(null_setting_predicts_as_the_plain_model, mutant).holds
    assert "other random numbers" in verdict(null_setting_trains_as_the_plain_model, PreparesBadly).detail
    assert null_setting_trains_as_the_plain_model(*LoRA.example()) is None


class TouchesTheBase(LoRA[Labeled]):
    """The frozen weights creep."""

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [replace(turn, after=self.creep) for turn in super().turns() if isinstance(turn, Descend)]

    def creep(self) -> None:
        for name, parameter in self.model.named_parameters():
            if name.endswith("original"):
                parameter.mul_(0.999)


def test_a_frozen_weight_that_changes_is_named() -> None:
    found = verdict(only_declared_parameters_change, TouchesTheBase)
    assert "first.parametrizations.weight.original has changed" in found.detail
    assert not found.holds


class AddsASingleHead(PiModel):
    """A layer of its own in torch's default precision."""

    def __init__(self, model: Model[Any], weight: float = 1.0) -> None:
        super().__init__(model, weight=weight)
        self.own = nn.Linear(2, 2)


class NoisesInSingle(PiModel):
    """What it adds to the examples has single precision, and so has what it hands to the model."""

    def logits(self, x: Tensor) -> Tensor:
        return super().logits(x.float())


def test_a_method_that_does_not_keep_the_precision_of_its_model_is_named() -> None:
    found = verdict(precision_of_the_model_is_kept, AddsASingleHead)
    assert "own.weight has torch.float32" in found.detail
    assert not found.holds
    found = verdict(precision_of_the_model_is_kept, NoisesInSingle)
    assert "training failed" in found.detail
    assert not found.holds


class Bare(Model[Labeled]):
    """It wraps nothing."""

    def __init__(self, features: int = 2) -> None:
        super().__init__()
        self.inner = ToyClassifier(features, 2)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        return cls(), ToyClassifier.example()[1]

    def loss(self, batch: Labeled) -> Terms:
        return self.inner.loss(batch)


def test_what_is_not_a_method_is_refused() -> None:
    with pytest.raises(UsageError, match="a method wraps one model; Bare has 0 among its arguments"):
        check_method(*Bare.example())
    with pytest.raises(UsageError, match="Linear is not"):
        check_method(nn.Linear(2, 2), Toy.example()[1])


def around(name: str, model: str) -> tuple[Model[Any], Labeled] | None:
    """The method around an example of a conditional model; none where it suits no density."""
    torch.manual_seed(0)
    inner, batch = find(model).example()
    others = {"features": getattr(inner, "features", 1), "teacher": inner, "sources": 3}
    given = {argument: value for argument, value in others.items() if argument in arguments_of(find(name))}
    try:
        return find(name)(model=inner, **given), batch
    except UsageError:
        return None


METHODS = [path.stem for path in sorted(Path(methods.__file__).parent.glob("[a-z]*.py"))]
OF_DENSITIES = [name for name in METHODS if around(name, "conditional_vae") is not None]
NEED_CODES = {"latent_diffusion"}  # of an autoencoder, which a diffusion of the data is not


@pytest.mark.parametrize(
    ("name", "model"),
    [(name, "conditional_vae") for name in OF_DENSITIES]
    + [(name, "guided_ddpm") for name in OF_DENSITIES if name not in NEED_CODES],
)
def test_a_method_is_conditional_as_the_model_that_it_wraps(name: str, model: str) -> None:
    made = around(name, model)
    assert made is not None
    found = conditioned_as_the_wrapped_model(*made)
    assert found is not None
    assert found.holds, found.detail
    assert "log_prob" in found.detail
    assert set(OF_DENSITIES) >= {"augmentation", "lora", "noise_injection", "pruning", "regularized"}


class ForgetsItsContext(LoRA[Labeled]):
    """The model inside stays unconditional, as if a context had been given for nothing."""

    def given(self, context: Context | int, **options: Any) -> Self:
        return self


class SaysNothing(LoRA[Labeled]):
    """Around a conditional model it passes for a plain one."""

    @property
    def conditioned_on(self) -> str | None:
        return None


class BindsItself(LoRA[Labeled]):
    """To bind a context changes the method for everyone who holds it."""

    def given(self, context: Context | int, **options: Any) -> Self:
        view = super().given(context, **options)
        self._wrap(view.model)
        return view


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        (ForgetsItsContext, "the context of a batch is not bound as the wrapped model's"),
        (SaysNothing, "the wrapped model is conditional, and the method otherwise"),
        (BindsItself, "to bind a context changes the method"),
    ],
)
def test_a_method_that_loses_the_context_is_named(method: type[Model[Any]], fault: str) -> None:
    inner, batch = find("guided_ddpm").example()
    found = conditioned_as_the_wrapped_model(method(model=inner), batch)
    assert found is not None
    assert not found.holds
    assert fault in found.detail


def test_a_method_around_a_plain_model_refuses_a_context() -> None:
    method: LoRA[Any]
    method, batch = LoRA.example()
    assert given_batch(method, batch) is method
    with pytest.raises(UsageError, match="is not a conditional model and takes no context"):
        method.given(1)
