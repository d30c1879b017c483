"""The base class of all models: the contract between a model and the trainer."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, get_args, get_origin

import torch
from torch import Tensor, nn

from deepcanon.core.batch import AnyBatch, Labeled
from deepcanon.core.conditional import given_batch
from deepcanon.core.display import LONGEST, in_few_words
from deepcanon.core.errors import shortened
from deepcanon.core.metered import Metered
from deepcanon.core.recipe import Recipe
from deepcanon.core.shown_model import shown_model
from deepcanon.core.turn import B, Descend, Terms, Turn

Support = Literal["binary", "spins", "categorical", "gray levels", "real", "mixed", "any"]
LikelihoodKind = Literal["exact", "lower bound", "estimate", "unnormalized"]

TREE = ("deepcanon.models.", "deepcanon.methods.")
"""What the modules of the catalogue's own models begin with."""


class Evaluated(NamedTuple):
    """The measures of a model on a batch: the terms of the loss and the metrics.

    ``mean`` is what ``predict(*batch.inputs, how="mean")`` gives, where it comes with them; else it is None.
    """

    terms: Terms
    metrics: Terms
    mean: Tensor | None = None


class Model(nn.Module, ABC, Generic[B]):
    """A ``torch.nn.Module`` with a loss and a way to be trained on a batch.

    A model implements ``loss`` and ``example``. Everything else has a default, and the methods of
    :mod:`deepcanon.core.roles` (``predict``, ``sample``, ``log_prob`` ...) are there only where they mean something.
    """

    recipe: ClassVar[Recipe] = Recipe()
    default_data: ClassVar[str | None] = None
    """The embedded data set that the model is trained on if none is given; else the first that suits it."""
    surrogate: ClassVar[bool] = False
    """True where the loss is not a measure of fit (a GAN, a contrastive loss); then only ``metrics`` are monitored."""
    relates_examples: ClassVar[bool] = False
    """True where the loss compares the examples of a batch with each other (a contrastive one): then it depends on how
    large batches are, and the losses of parts do not add up to that of the whole."""
    progress: float = 0.0
    """The fraction of the training that is done, set by the trainer."""
    vocabulary: tuple[str, ...] = ()
    """The tokens of a text (characters, words ...) by their ids: those of the data, set by the trainer."""
    feature_scales: tuple[float, ...] = ()
    """What each feature was divided by to be standardized, where it was: that of the data, set by the trainer."""
    _hparams: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = _recording(cls.__init__)  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """The arguments that are not the defaults, and the number of parameters; ``print`` shows all layers."""
        parameters = inspect.signature(type(self)).parameters
        usual = {name: in_few_words(parameter.default) for name, parameter in parameters.items()}
        given = {name: in_few_words(value) for name, value in self.__dict__.get("_hparams", {}).items()}
        told = ", ".join(f"{name}={words}" for name, words in given.items() if words != usual.get(name))
        size = sum(parameter.numel() for parameter in self.parameters())
        return f"{shortened(f'{type(self).__name__}({told})', LONGEST)} of {size:,} parameters"

    def __str__(self) -> str:
        return nn.Module.__repr__(self)

    def _repr_html_(self) -> str:
        return shown_model(self)

    @abstractmethod
    def loss(self, batch: B) -> Terms:
        """The named terms of the loss, means over the examples; their sum is the objective that is minimized."""

    @classmethod
    @abstractmethod
    def example(cls) -> tuple[Self, B]:
        """A small instance of the model and data for it."""

    def weight_of(self, batch: B) -> float:
        """The number of terms that the loss of a batch is the mean of: its weight among the losses of other batches."""
        return batch.weight

    def turns(self) -> Sequence[Turn[B]]:
        """The turns by which the model is trained on a batch; called once per fit."""
        return [Descend(self.loss, self.parameters())]

    def prepare(self, data: Iterable[B]) -> None:
        """Go through the training batches before the first step, once or more, to fit statistics, kept as buffers."""
        return

    @property
    def support(self) -> Support:
        """The kind of values that the model is a distribution of."""
        return "any"

    @property
    def causal(self) -> bool:
        """Whether what is said of a position of a sequence depends on no later position, which a law then checks."""
        return False

    def metrics(self, batch: B) -> Terms:
        """The named metrics on held-out data; by default those of ``predict``, else the negative log-likelihood."""
        predict = getattr(self, "predict", None)
        if predict is not None and isinstance(batch, Labeled):
            return _predictive_metrics(predict, batch)
        if hasattr(self, "log_prob"):
            return {"nll": -given_batch(self, batch).log_prob(batch.x).mean()}
        return {}

    def evaluated(self, batch: B) -> Evaluated:
        """The terms of the loss, the metrics, and the predicted mean; an engine has all from one forward pass."""
        return Evaluated(self.loss(batch), self.metrics(batch))

    @property
    def per_example(self) -> frozenset[str]:
        """The metrics that are means over the examples of a batch, where the loss is one over other terms (tokens)."""
        return frozenset()

    @property
    def hparams(self) -> Mapping[str, Any]:
        """The constructor's arguments as they were given, defaults included."""
        return MappingProxyType(self._hparams)

    @classmethod
    def name(cls) -> str:
        """The name in the catalogue, which is that of the file; outside the catalogue, the name of the class."""
        return cls.__module__.rpartition(".")[2] if cls.__module__.startswith(TREE) else cls.__name__

    @classmethod
    def batch_type(cls) -> type[AnyBatch]:
        """The batch type that the model is trained on: the argument of ``Model[...]`` in its bases."""
        for base in cls.__mro__:
            for generic in getattr(base, "__orig_bases__", ()):
                origin = get_origin(generic)
                if isinstance(origin, type) and issubclass(origin, Model):
                    (kind,) = get_args(generic)
                    if isinstance(kind, type) and issubclass(kind, AnyBatch):  # Any is a type, too, and says nothing
                        return kind
        return AnyBatch


def _recording(init: Callable[..., None]) -> Callable[..., None]:
    """The constructor, wrapped to record the arguments it was given."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def recorded(self: Model[Any], *args: Any, **kwargs: Any) -> None:
        if "_hparams" not in self.__dict__:  # else a subclass is already being recorded
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            _, *arguments = bound.arguments.items()
            self.__dict__["_hparams"] = dict(arguments)
            with Metered(type(self).name()):
                init(self, *args, **kwargs)
        else:
            init(self, *args, **kwargs)

    return recorded


def _predictive_metrics(predict: Callable[..., torch.Tensor], batch: Labeled) -> Terms:
    mean = predict(*batch.inputs, how="mean")
    if batch.y.is_floating_point():
        return {"mse": (mean - batch.y).square().sum(-1).mean(), "mae": (mean - batch.y).abs().sum(-1).mean()}
    right = predict(*batch.inputs, how="mode") == batch.y
    probability = mean.gather(-1, batch.y.unsqueeze(-1)).clamp_min(torch.finfo(mean.dtype).tiny)
    return {"accuracy": right.to(mean.dtype).mean(), "nll": -probability.log().mean()}
