"""The contract: what every model of the canon is, whatever it learns and however it learns it."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Self, get_args, get_origin

import torch
from torch import nn

from deepcanon.core.batch import AnyBatch, Labeled
from deepcanon.core.recipe import Recipe
from deepcanon.core.turn import B, Descend, Terms, Turn

Support = Literal["binary", "real", "categorical", "any"]
LikelihoodKind = Literal["exact", "lower bound", "estimate", "unnormalized"]


class Model(nn.Module, ABC, Generic[B]):
    """A module that knows how badly it fits a batch and how it learns from one.

    A model implements ``loss`` and ``example``. Everything else has a default, and the methods of
    :mod:`deepcanon.core.roles` (``predict``, ``sample``, ``log_prob`` ...) are there only where they mean something.
    """

    recipe: ClassVar[Recipe] = Recipe()
    surrogate: ClassVar[bool] = False
    """True where the loss is no measure of fit; then only ``metrics`` are watched."""
    progress: float = 0.0
    """The share of the training that is done, kept by the trainer."""
    vocabulary: tuple[str, ...] = ()
    """What the numbers of a text stand for, characters or words: those of the data, kept by the trainer."""
    _hparams: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = _recording(cls.__init__)  # type: ignore[method-assign]

    @abstractmethod
    def loss(self, batch: B) -> Terms:
        """How badly the model fits: named terms, means over the examples, whose sum is the objective."""

    @classmethod
    @abstractmethod
    def example(cls) -> tuple[Self, B]:
        """A tiny instance and data for it."""

    def turns(self) -> Sequence[Turn[B]]:
        """How the model learns from a batch; asked once per fit."""
        return [Descend(self.loss, self.parameters())]

    def prepare(self, data: Iterable[B]) -> None:
        """Look once at the training batches before the first step; what is kept are buffers."""
        return

    @property
    def support(self) -> Support:
        """The values the model models."""
        return "any"

    def metrics(self, batch: B) -> Terms:
        """What to watch on held-out data, here from the methods the model has."""
        predict = getattr(self, "predict", None)
        if predict is not None and isinstance(batch, Labeled):
            return _predictive_metrics(predict, batch)
        log_prob = getattr(self, "log_prob", None)
        if log_prob is not None:
            return {"nll": -log_prob(batch.x).mean()}
        return {}

    @property
    def hparams(self) -> Mapping[str, Any]:
        """The constructor's arguments as they were given, defaults included."""
        return MappingProxyType(self._hparams)

    @classmethod
    def name(cls) -> str:
        """The name in the catalogue: the file's; of a class outside the catalogue, the class's."""
        tree = cls.__module__.startswith(("deepcanon.models.", "deepcanon.methods."))
        return cls.__module__.rpartition(".")[2] if tree else cls.__name__

    @classmethod
    def batch_type(cls) -> type[AnyBatch]:
        """The kind of batch the model learns from: the argument of ``Model[...]`` in its bases."""
        for base in cls.__mro__:
            for generic in getattr(base, "__orig_bases__", ()):
                origin = get_origin(generic)
                if isinstance(origin, type) and issubclass(origin, Model):
                    (kind,) = get_args(generic)
                    if isinstance(kind, type) and issubclass(kind, AnyBatch):  # Any is a type, too, and says nothing
                        return kind
        return AnyBatch


def _recording(init: Callable[..., None]) -> Callable[..., None]:
    """The constructor, which now also keeps the arguments it was given."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def recorded(self: Model[Any], *args: Any, **kwargs: Any) -> None:
        if "_hparams" not in self.__dict__:  # else a subclass is already being recorded
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            _, *arguments = bound.arguments.items()
            self.__dict__["_hparams"] = dict(arguments)
        init(self, *args, **kwargs)

    return recorded


def _predictive_metrics(predict: Callable[..., torch.Tensor], batch: Labeled) -> Terms:
    mean = predict(*batch.inputs, how="mean")
    if batch.y.is_floating_point():
        return {"mse": (mean - batch.y).square().sum(-1).mean(), "mae": (mean - batch.y).abs().sum(-1).mean()}
    right = predict(*batch.inputs, how="mode") == batch.y
    probability = mean.gather(-1, batch.y.unsqueeze(-1)).clamp_min(torch.finfo(mean.dtype).tiny)
    return {"accuracy": right.to(mean.dtype).mean(), "nll": -probability.log().mean()}
