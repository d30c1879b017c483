"""Weight regularization (L1, L2, Fiedler)."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from deepcanon.core import Model, Terms, Turn, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.core.turn import B
from deepcanon.methods._method import Method, descents


class Regularized(Method[B]):
    r"""Penalties on the weights: L1 for sparsity, L2 as weight decay, Fiedler on the connectivity of the network.

    Also known as: lasso, ridge, Tikhonov regularization, weight decay.

    .. math:: \ell(\theta) + \sum_l \Bigl( \lambda^{(1)}_l \lVert W_l \rVert_1
              + \frac{\lambda^{(2)}_l}2 \lVert W_l \rVert_2^2 \Bigr) + \delta\, \lambda_2(L) \qquad (1)

    The gradient of the L2 penalty is :math:`\lambda^{(2)} W`; of the L1 penalty the subgradient
    :math:`\lambda^{(1)} \operatorname{sign} W` with :math:`\operatorname{sign} 0 = 0` is taken, so that weights come
    near zero and seldom stay on it. Biases are not penalized.

    Fiedler regularization takes the units of a chain of linear layers as the nodes of a graph with edges of weight
    :math:`\lvert W_{ij} \rvert` and the Laplacian :math:`L`. Its second smallest eigenvalue, the algebraic
    connectivity, is, with the eigenvector :math:`u` of length 1 that belongs to it,

    .. math:: \lambda_2(L) = u^\top L u = \sum_{(i, j)} \lvert W_{ij} \rvert (u_i - u_j)^2. \qquad (2)

    Its gradient is :math:`(u_i - u_j)^2`, so that edges between the two halves of the graph are penalized most. Each
    step computes u anew, which for n units takes of the order of :math:`n^3` operations.

    References:
        | Fiedler Regularization: Learning Neural Networks with Graph Sparsity (Tam and Dunson, 2020),
          https://arxiv.org/abs/2003.00992
        | Deep Learning (Goodfellow et al., 2016), chapter 7, https://www.deeplearningbook.org

    Arguments:
        model: The model, whose own loss and turns are used.
        l1: The strength :math:`\lambda^{(1)}` for all layers, or one for each layer in their order.
        l2: The strength :math:`\lambda^{(2)}` (weight decay) alike.
        fiedler: The strength :math:`\delta`.
        layers: The weights to penalize, as patterns of their names.
    """

    null: ClassVar[Mapping[str, Any]] = {"l1": (0.0,), "l2": (0.0,), "fiedler": 0.0}

    def __init__(
        self,
        model: Model[Any],
        l1: tuple[float, ...] = (0.0,),
        l2: tuple[float, ...] = (1e-3,),
        fiedler: float = 0.0,
        layers: tuple[str, ...] = ("*",),
    ) -> None:
        super().__init__(model)
        self.weights = _chosen(model, layers)
        self.l1, self.l2 = (_per_layer(name, given, self.weights) for name, given in (("l1", l1), ("l2", l2)))
        if fiedler < 0:
            raise UsageError(f"fiedler must be 0 or more (got {fiedler:g})")
        self.fiedler = fiedler
        if fiedler > 0:
            _chain(model)  # says at once where there is none

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        model, batch = ToyClassifier.example()
        return cls(model, l1=(0.01, 0.0), l2=(0.01,), fiedler=0.01), batch

    def turns(self) -> Sequence[Turn[B]]:
        """The wrapped model's turns, each with the penalties of the weights that it trains."""
        return [
            replace(turn, loss=partial(self.around, turn.loss, own={id(p) for p in turn.parameters}))
            for turn in descents(self.model, self.name())
        ]

    def around(self, loss: Callable[[B], Terms], batch: B, own: set[int] | None = None) -> Terms:
        """A loss with the penalties; of ``own`` parameters only, where they are given."""
        return {**loss(batch), **self.penalties(own)}  # eq. (1)

    def penalties(self, own: set[int] | None = None) -> Terms:
        """The penalties that count, by name; of ``own`` parameters only, where they are given."""
        named = dict(self.model.named_parameters())
        held = [i for i, name in enumerate(self.weights) if own is None or id(named[name]) in own]
        weights = {i: named[self.weights[i]] for i in held}
        found: dict[str, list[Tensor]] = {
            "l1": [self.l1[i] * weight.abs().sum() for i, weight in weights.items() if self.l1[i] > 0],
            "l2": [self.l2[i] / 2 * weight.square().sum() for i, weight in weights.items() if self.l2[i] > 0],
        }
        if self.fiedler > 0:
            chain = _chain(self.model)
            if own is None or any(id(weight) in own for weight in chain):
                found["fiedler"] = [self.fiedler * fiedler_value(chain)]
        return {name: torch.stack(parts).sum() for name, parts in found.items() if parts}


def fiedler_value(weights: Sequence[Tensor]) -> Tensor:
    """The second smallest eigenvalue of the Laplacian of a chain of layers with weights (outputs, inputs).

    >>> round(fiedler_value([torch.ones(1, 2)]).item(), 4)  # a path of three nodes
    1.0
    """
    sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    with torch.no_grad():
        adjacency = weights[0].new_zeros(sum(sizes), sum(sizes))
        for weight, start, (rows, columns) in zip(weights, starts, pairwise(sizes), strict=False):
            adjacency[start + rows : start + rows + columns, start : start + rows] = weight.abs()
        adjacency = adjacency + adjacency.T
        vector = torch.linalg.eigh(torch.diag(adjacency.sum(0)) - adjacency).eigenvectors[:, 1]
        parts = vector.split(sizes)
    # u' L u as a sum over edges: its value is the eigenvalue, its gradient that of the eigenvalue
    terms = [
        (weight.abs() * (after.unsqueeze(1) - before.unsqueeze(0)).square()).sum()  # eq. (2)
        for weight, (before, after) in zip(weights, pairwise(parts), strict=True)
    ]
    return torch.stack(terms).sum()


def _chosen(model: Model[Any], patterns: Sequence[str]) -> list[str]:
    """The names of the weights that the patterns name, in the model's order."""
    there = [name for name, parameter in model.named_parameters() if parameter.ndim >= 2]
    for pattern in patterns:
        if not fnmatch.filter(there, pattern):
            raise UsageError(
                f"layers={pattern!r} matches no weight of {model.name()}; it has {', '.join(there) or 'none'}"
            )
    return [name for name in there if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def _per_layer(name: str, given: tuple[float, ...], weights: Sequence[str]) -> tuple[float, ...]:
    if min(given, default=-1.0) < 0:
        raise UsageError(f"{name} takes strengths of 0 or more (got {', '.join(f'{each:g}' for each in given)})")
    if len(given) not in (1, len(weights)):
        raise UsageError(
            f"{name} takes one strength, or one for each of {', '.join(weights)} (got {len(given)} strengths)"
        )
    return given * len(weights) if len(given) == 1 else given


def _chain(model: Model[Any]) -> list[Tensor]:
    """The weights of linear layers of which each takes the outputs of the one before."""
    weights: list[Tensor] = [layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)]
    matrices = [name for name, parameter in model.named_parameters() if parameter.ndim >= 2]
    if len(weights) != len(matrices) or any(a.shape[0] != b.shape[1] for a, b in pairwise(weights)) or not weights:
        raise UsageError(
            f"fiedler takes a network that is a chain of linear layers; {model.name()} is not: set fiedler to 0"
        )
    return weights
