"""Bayesian network with neural conditionals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Recipe, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.distributions.base_rates import log_odds
from deepcanon.models.autoregressive._autoregressive import Autoregressive
from deepcanon.nn.masked import MaskedLinear, ancestral_order, parent_mask


class BayesianNetwork(Autoregressive[Batch]):
    r"""A directed graphical model of binary data: each value has a small network that reads its parents.

    Also known as: belief network, directed graphical model.

    .. math:: p(x) = \prod_{d=1}^D p(x_d \mid x_{\mathrm{pa}(d)}) \qquad (1)

    .. math:: p(x_d = 1 \mid x_{\mathrm{pa}(d)}) = \sigma\bigl(b_d + A_d\, x_{\mathrm{pa}(d)}
              + v_d^\top \tanh(W_d\, x_{\mathrm{pa}(d)} + c_d)\bigr) \qquad (2)

    The graph is any directed one without cycles, given by its edges. What it leaves out are independences: a value is
    independent of all that do not descend from it, given its parents. A sample is ancestral, every value drawn after
    its parents, and in whatever order that is done its distribution is the same. With all earlier values as parents the
    model can be any distribution; without hidden units it is a fully visible sigmoid belief network. For example, the
    first two values as causes of the third::

        deepcanon train bayesian_network --edges 0-2,1-2 --data yours.csv

    References:
        | Probabilistic Reasoning in Intelligent Systems (Pearl, 1988), https://doi.org/10.1016/C2009-0-27609-4
        | Connectionist learning of belief networks (Neal, 1992), https://doi.org/10.1016/0004-3702(92)90065-6
        | Modeling High-Dimensional Discrete Data with Multi-Layer Neural Networks (Bengio and Bengio, 2000),
          https://papers.nips.cc/paper/1999/hash/e6384711491713d29bc63fc5eeb5ba4f-Abstract.html

    Arguments:
        features: The number of values :math:`D`.
        edges: The edges of the graph, each from a parent to a child by their positions from 0, as ``0-2``; or a number,
            so that the parents of each value are so many values before it, all if there are fewer.
        units: The number of hidden units of each conditional; without any it is a logistic regression.
    """

    recipe = Recipe(lr=3e-2, schedule="cosine", batch_size=100, epochs=100)

    def __init__(self, features: int, edges: int | tuple[str, ...] = 20, units: int = 16) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(0, units=units)
        self.features, self.units = features, units
        self.parents = _parents(features, edges)
        self.ordering = ancestral_order(self.parents).tolist()
        each = torch.arange(features)
        self.direct = MaskedLinear(parent_mask(self.parents, each))  # A and b
        self.hidden = MaskedLinear(parent_mask(self.parents, each.repeat_interleave(units))) if units else None
        self.readout = nn.Parameter(torch.empty(features, units).uniform_(-1, 1) / max(1, units) ** 0.5)  # v

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(32, 5, generator=torch.Generator().manual_seed(0)).round()
        return cls(features=5, edges=("4-0", "4-2", "0-1", "2-1", "1-3"), units=3), Batch(x)

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Initialize the biases with the base rates of the data."""
        self.direct.bias.copy_(log_odds(data, self.features, self.name()))

    def drawing_order(self) -> Iterable[int]:
        return self.ordering

    def logits(self, x: Tensor) -> Tensor:
        x = flat(x, self.features)
        logits: Tensor = self.direct(x)
        if self.hidden is not None:
            units = self.hidden(x).tanh().unflatten(-1, (self.features, self.units))
            logits = logits + (units * self.readout).sum(-1)  # eq. (2)
        return logits

    def logits_of(self, x: Tensor, d: int) -> Tensor:
        parents = self.parents[d]
        x = x[:, parents]
        logits = x @ self.direct.weight[d, parents] + self.direct.bias[d]
        if self.hidden is not None:
            own = slice(d * self.units, (d + 1) * self.units)
            units = torch.addmm(self.hidden.bias[own], x, self.hidden.weight[own, parents].T).tanh()
            logits = logits + units @ self.readout[d]
        return logits

    def _log_prob(self, x: Tensor) -> Tensor:
        return super()._log_prob(x)  # eq. (1)


def _parents(features: int, edges: int | tuple[str, ...]) -> list[list[int]]:
    """The parents of each value.

    >>> _parents(3, ("0-2", "1-2")), _parents(3, 1)
    ([[], [], [0, 1]], [[], [0], [1]])
    """
    if isinstance(edges, int):
        at_least(0, edges=edges)
        return [[*range(max(0, d - edges), d)] for d in range(features)]
    parents: list[set[int]] = [set() for _ in range(features)]
    for edge in edges:
        if not (found := re.fullmatch(r"\s*(\d+)-(\d+)\s*", edge)):
            raise UsageError(f"an edge is the positions of a parent and a child, as 0-2; got {edge!r}")
        parent, child = int(found[1]), int(found[2])
        if max(parent, child) >= features:
            raise UsageError(f"the positions of {features} values are 0 to {features - 1}; got the edge {edge!r}")
        parents[child].add(parent)
    return [sorted(above) for above in parents]
