"""Invertible transforms with their log-determinants: the layers of normalizing flows, of data and of posteriors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError

Mapped = tuple[Tensor, Tensor]
"""The image z of each example and log |det dz/dx|, (B,)."""


class Transform(nn.Module, ABC):
    r"""An invertible map of each example, :math:`z = f(x)`, with its log-determinant.

    ``forward(x)`` gives z and :math:`\log |\det dz/dx|`, one number for each example; ``inverse(z)`` gives x. With x
    distributed as p, z has the log-density :math:`\log p(x) - \log |\det dz/dx|`.

    A ``conditional`` transform takes a second argument in ``forward`` and ``inverse``: the context, one row for each
    example, that its map depends on.
    """

    conditional: bool = False

    @abstractmethod
    def forward(self, x: Tensor) -> Mapped:
        """The image z of each example and log |det dz/dx|, (B,)."""

    @abstractmethod
    def inverse(self, z: Tensor) -> Tensor:
        """The examples x that are mapped to z."""

    @torch.no_grad()
    def fit(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Initialize what depends on data by these examples, and give their images z."""
        z: Tensor = self(x, *_given(self, context))[0]
        return z


class Chain(Transform):
    r"""Transforms one after the other, :math:`f_n \circ \cdots \circ f_1`; their log-determinants add up.

    A context goes to those that are conditional.

    >>> chain = Chain([Reverse(), Reverse()])
    >>> z, log_det = chain(torch.tensor([[1.0, 2.0]]))
    >>> z.tolist(), log_det.tolist()
    ([[1.0, 2.0]], [0.0])
    """

    def __init__(self, transforms: Iterable[Transform]) -> None:
        super().__init__()
        self.transforms = nn.ModuleList(transforms)
        self.conditional = any(transform.conditional for transform in self.transforms)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        log_det = x.new_zeros(len(x))
        self._check(context)
        for transform in self.transforms:
            x, change = transform(x, *_given(transform, context))
            log_det = log_det + change
        return x, log_det

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        self._check(context)
        for transform in reversed(self.transforms):
            step: Any = transform
            z = step.inverse(z, *_given(transform, context))
        return z

    @torch.no_grad()
    def fit(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        for transform in self.transforms:
            step: Any = transform
            x = step.fit(x, *_given(transform, context))
        return x

    def _check(self, context: Tensor | None) -> None:
        if context is not None and not self.conditional:
            raise UsageError("none of these transforms is conditional; leave out the context")


class Reverse(Transform):
    """The features, or channels, in reverse order, so that the next coupling reads what this one has changed."""

    def forward(self, x: Tensor) -> Mapped:
        return x.flip(1), x.new_zeros(len(x))

    def inverse(self, z: Tensor) -> Tensor:
        return z.flip(1)


def _given(transform: Any, context: Tensor | None) -> tuple[Tensor, ...]:
    """The context as an argument, for a transform that takes one."""
    if not transform.conditional:
        return ()
    if context is None:
        raise UsageError(f"{type(transform).__name__} is conditional: give it the context")
    return (context,)
