"""Engineered features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import comb
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from deepcanon.core import Absorb, Descend, Evaluated, How, Labeled, Model, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._method import Method

MOST = 50_000
"""The largest number of features that are made."""


class EngineeredFeatures(Method[Labeled]):
    r"""A supervised model of fixed nonlinear features: polynomials, the squared radius, radial basis functions.

    Also known as: feature expansion, basis functions, radial basis function network.

    .. math:: f(x) = g\bigl(\phi(x)\bigr), \qquad
              \phi(x) = \Bigl(\textstyle\prod_i x_i^{a_i} : 1 \le \sum_i a_i \le d, \;\; \lVert x \rVert^2, \;\;
              e^{-\lVert x - c_j \rVert^2 / 2 s^2}\Bigr) \qquad (1)

    What is linear in :math:`\phi(x)` is not linear in x: with the squared radius a linear classifier separates a disk
    from the ring around it. A feature must be thought of, or there must be very many: of D inputs there are
    :math:`\binom{D + d}{d} - 1` monomials up to the degree d. A hidden layer learns them in their place.

    The features are a part of the model, so that a run predicts from, and exports for, the columns that it was given.
    The model is built anew for as many features as there are. Centers :math:`c_j` are training examples, drawn at the
    start of training; the width s is the median distance between them, unless it is given.

    References:
        | Multivariable functional interpolation and adaptive networks (Broomhead and Lowe, 1988), Complex Systems 2
        | The elements of statistical learning (Hastie et al., 2009; chapter 5), https://hastie.su.domains/ElemStatLearn/

    Arguments:
        model: The classifier or regression, of vectors.
        degree: The highest degree d of the monomials; 1 are the inputs themselves.
        circle: Whether the squared radius is a feature.
        centers: The number of radial basis functions.
        spread: Their width s, in the units of x.
    """

    default_model: ClassVar[str] = "logistic_regression"
    default_data = "rings"
    null: ClassVar[Mapping[str, Any]] = {"degree": 1, "circle": False, "centers": 0, "spread": None}

    places: Tensor
    scale: Tensor

    def __init__(
        self, model: Model[Any], degree: int = 2, circle: bool = False, centers: int = 0, spread: float | None = None
    ) -> None:
        at_least(1, degree=degree)
        at_least(0, centers=centers)
        if spread is not None and (spread <= 0 or centers == 0):
            raise UsageError(f"spread is that of radial basis functions, above 0, and needs centers (got {spread})")
        inputs = model.hparams.get("features")
        if not isinstance(inputs, int) or not hasattr(model, "predict"):
            raise UsageError(f"engineered_features wraps a model that predicts from features; {model.name()} is none")
        made = comb(inputs + degree, degree) - 1 + circle + centers
        if made > MOST:
            raise UsageError(f"{inputs} features give {made:,} of degree {degree}; more than {MOST:,} are too many")
        super().__init__(model if made == inputs else _rebuilt(model, made))
        if hasattr(model, "quantiles"):
            self.__dict__["quantiles"] = self._quantiles
        self.inputs, self.circle, self.spread = inputs, circle, spread
        self.monomials = [
            torch.tensor([*combinations_with_replacement(range(inputs), d)]) for d in range(2, degree + 1)
        ]
        weight = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
        self.register_buffer("places", weight.new_zeros(centers, inputs))
        self.register_buffer("scale", weight.new_ones(()))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model, degree=2, circle=True, centers=3), batch

    def features(self, x: Tensor) -> Tensor:
        """The features of examples, (B, features)."""
        if not self.monomials and not self.circle and not len(self.places):
            return x
        x = flat(x, self.inputs)
        parts = [x, *(x[:, places].prod(-1) for places in self.monomials)]
        if self.circle:
            parts.append(x.square().sum(1, keepdim=True))
        if len(self.places):
            distances = (x.unsqueeze(1) - self.places).square().sum(-1)
            parts.append((-distances / (2 * self.scale.square())).exp())
        return torch.cat(parts, 1)  # eq. (1)

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return self.model(self.features(x))

    def prepare(self, data: Iterable[Labeled]) -> None:
        if len(self.places):
            self._place(torch.cat([flat(batch.x, self.inputs) for batch in data]))
        self.model.prepare(_Engineered(data, self._of))

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [self._on_features(turn) for turn in self.model.turns()]

    def around(self, loss: Callable[[Labeled], Terms], batch: Labeled) -> Terms:
        return loss(self._of(batch))

    def metrics(self, batch: Labeled) -> Terms:
        return self.model.metrics(self._of(batch))

    def evaluated(self, batch: Labeled) -> Evaluated:
        return self.model.evaluated(self._of(batch))

    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        found: Tensor = self.model.predict(self.features(inputs[0]), how=how, generator=generator)  # type: ignore[operator]
        return found

    def _quantiles(self, *inputs: Tensor, levels: Tensor) -> Tensor:
        found: Tensor = self.model.quantiles(self.features(inputs[0]), levels=levels)  # type: ignore[operator]
        return found

    def unwrapped(self) -> Model[Any]:
        """The model with its features: alone, it does not predict from the inputs."""
        return self

    def _of(self, batch: Labeled) -> Labeled:
        return replace(batch, x=self.features(batch.x))

    def _on_features(self, turn: Turn[Labeled]) -> Turn[Labeled]:
        """The turn of the wrapped model, on features."""
        if isinstance(turn, Absorb):
            rule = turn.rule
            return replace(turn, rule=lambda batch: rule(self._of(batch)))
        if not isinstance(turn, Descend):
            raise UsageError(f"engineered_features does not know the turn {turn.name!r} of {self.model.name()}")
        loss, gradient = turn.loss, turn.gradient
        own = None if gradient is None else lambda batch: gradient(self._of(batch))
        return replace(turn, loss=lambda batch: loss(self._of(batch)), gradient=own)

    @torch.no_grad()
    def _place(self, rows: Tensor) -> None:
        """Take centers from among different rows, and the width from the distances between them."""
        rows = rows.unique(dim=0)
        if len(rows) < len(self.places):
            raise UsageError(f"{len(self.places)} centers need as many different examples; there are {len(rows)}")
        chosen = torch.randperm(len(rows), generator=Generator().manual_seed(0))[: len(self.places)]
        self.places.copy_(rows[chosen.to(rows.device)])
        if self.spread is not None:
            self.scale.fill_(self.spread)
        elif len(self.places) > 1:
            self.scale.copy_(torch.pdist(self.places).median())


class _Engineered:
    """Batches with their features in place of their inputs, made anew each time they are gone through."""

    def __init__(self, data: Iterable[Labeled], change: Callable[[Labeled], Labeled]) -> None:
        self.data, self.change = data, change

    def __iter__(self) -> Iterator[Labeled]:
        return map(self.change, self.data)


def _rebuilt(model: Model[Any], features: int) -> Model[Any]:
    """A model like this one, of so many features, in its precision."""
    found = type(model)(**{**model.hparams, "features": features})
    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    return found if first is None else found.to(first.device, first.dtype)
