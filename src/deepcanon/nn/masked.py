"""Masked linear layer, and the masks of autoregressive networks and of directed graphical models."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.fast_product import linear


class MaskedLinear(nn.Linear):
    r"""A linear layer whose weights are multiplied by a binary mask.

    .. math:: y = (M \odot W)\, x + b

    The mask, (outputs, inputs), follows from the arguments of the model, so it is not saved with the weights. A masked
    weight gets the gradient 0.

    References:
        | MADE: Masked Autoencoder for Distribution Estimation (Germain et al., 2015), https://arxiv.org/abs/1502.03509

    >>> layer = MaskedLinear(torch.tensor([[True, False]]))
    >>> bool(layer(torch.tensor([[1.0, 2.0]])) == layer(torch.tensor([[1.0, 5.0]])))
    True
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        outputs, inputs = mask.shape
        super().__init__(inputs, outputs)
        self.register_buffer("mask", mask.to(self.weight.dtype), persistent=False)

    @torch.no_grad()
    def reset_by_connections(self) -> None:
        """Initialize as torch does a linear layer, but each unit by the number of inputs that its mask leaves to it."""
        bound = self.mask.sum(1).clamp(min=1).rsqrt()
        self.weight.uniform_(-1, 1).mul_(bound.unsqueeze(1))
        self.bias.uniform_(-1, 1).mul_(bound)

    @property
    def masked_weight(self) -> Tensor:
        return self.mask * self.weight

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.masked_weight, self.bias)


def autoregressive_mask(inputs: Tensor, outputs: Tensor, *, strictly: bool = False) -> Tensor:
    """The mask that connects each output to the inputs of its own degree or less, or ``strictly`` of less.

    Degrees are integers, one per unit. With these masks a unit of degree d depends on the values 1 to d only; units of
    degree 0, such as a context, are seen by all.

    >>> autoregressive_mask(torch.tensor([1, 2, 3]), torch.tensor([2, 1])).int()
    tensor([[1, 1, 0],
            [1, 0, 0]], dtype=torch.int32)
    """
    return inputs < outputs.unsqueeze(1) if strictly else inputs <= outputs.unsqueeze(1)


def spread_degrees(features: int, width: int, lowest: int = 1) -> Tensor:
    """The degrees of a hidden layer, from the ``lowest`` to ``features - 1``, spread evenly and in order.

    Units of degree 0 read a context alone, so that the first value depends on it.

    >>> spread_degrees(4, 5)
    tensor([1, 2, 2, 2, 3])
    """
    return torch.linspace(lowest, max(lowest, features - 1), width).round().long()


def parent_mask(parents: Sequence[Sequence[int]], owners: Tensor) -> Tensor:
    """The mask of a first layer in a directed graphical model: a unit sees the parents of the value that owns it.

    ``parents`` lists the parents of each value, and ``owners`` the value of each unit. A unit of a further layer sees
    those with its own owner (:func:`owner_mask`), so that in a network of any depth the outputs of a value depend on
    its parents only.

    >>> parent_mask([[], [0], [0, 1]], owners=torch.tensor([1, 2])).int()
    tensor([[1, 0, 0],
            [1, 1, 0]], dtype=torch.int32)
    """
    ancestral_order(parents)
    among = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for value, above in enumerate(parents):
        among[value, list(above)] = True
    return among[owners]


def owner_mask(inputs: Tensor, outputs: Tensor) -> Tensor:
    """The mask that connects the units of one value: those whose owners, one per unit, are the same."""
    return inputs == outputs.unsqueeze(1)


def ancestral_order(parents: Sequence[Sequence[int]]) -> Tensor:
    """An order of the values in which all parents come before their children, the earlier ones first; no cycles.

    >>> ancestral_order([[2], [], [1]])
    tensor([1, 2, 0])
    """
    strange = [above for each in parents for above in each if not 0 <= above < len(parents)]
    if strange:
        raise UsageError(f"the parents of {len(parents)} values are among 0 to {len(parents) - 1}, got {strange[0]}")
    try:
        return torch.tensor(list(TopologicalSorter(dict(enumerate(parents))).static_order()), dtype=torch.long)
    except CycleError as error:
        cycle = " -> ".join(str(value) for value in reversed(error.args[1]))
        raise UsageError(f"a directed graphical model has no cycles, and these parents have one: {cycle}") from error
