"""Modern Hopfield network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import Absorb, Batch, Model, Recipe, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.nn.attention import attention
from deepcanon.nn.rescale import Rescale, mean_and_std


class ModernHopfield(Model[Batch]):
    r"""An associative memory of real patterns, in which an update of the state is a step of attention to them.

    Also known as: continuous Hopfield network, dense associative memory.

    .. math:: E(\xi) = -\frac1\beta \log \sum_{i=1}^N e^{\beta x_i^\top \xi} + \frac12 \xi^\top \xi
              + \frac1\beta \log N + \frac12 M^2, \qquad M = \max_i \lVert x_i \rVert \qquad (1)

    .. math:: \xi \leftarrow \sum_i w_i x_i, \qquad w = \operatorname{softmax}(\beta X \xi) \qquad (2)

    The rows of X are the stored patterns :math:`x_i`. The update (2) never raises the energy, which is at least 0: it
    is attention with the state as query and the patterns as keys and values. Of patterns that lie far apart one update
    retrieves the nearest up to an error that falls exponentially with :math:`\beta` and their separation; so
    exponentially many in the dimension can be stored, where a classical network holds :math:`0.138 N`. With a small
    :math:`\beta` the state ends at the mean of several patterns.

    Patterns and states are taken less the mean of the data, and in units of its standard deviation over all features:
    with their mean left in, all patterns would lie in one direction, and be alike.

    References:
        | Hopfield Networks is All You Need (Ramsauer et al., 2020), https://arxiv.org/abs/2008.02217
        | On a model of associative memory with huge storage capacity (Demircigil et al., 2017),
          https://arxiv.org/abs/1702.01929

    Arguments:
        features: The dimension of the patterns.
        patterns: How many patterns there is room for; training stores the first that come.
        beta: The inverse temperature :math:`\beta`: how sharply the state attends to the nearest pattern.
    """

    recipe = Recipe(epochs=1)

    memory: Tensor
    stored: Tensor

    def __init__(self, features: int, patterns: int = 100, beta: float = 2.0) -> None:
        super().__init__()
        at_least(1, features=features, patterns=patterns)
        if not beta > 0:
            raise UsageError(f"beta must be above 0 (got {beta:g})")
        self.features, self.beta = features, beta
        self.to_standard = Rescale(features)
        self.register_buffer("memory", torch.zeros(patterns, features))  # X
        self.register_buffer("stored", torch.tensor(0))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
        return cls(features=16, patterns=4, beta=0.5), Batch(x)

    def prepare(self, data: Iterable[Batch]) -> None:
        """Take the mean of each feature, and one standard deviation of all."""
        mean, std = mean_and_std(data)
        if std > 0:
            self.to_standard.set(1 / std, -mean / std)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Absorb(self.learn)]

    def learn(self, batch: Batch) -> None:
        """Store examples of the batch, as long as there is room."""
        self.store(batch.x[: max(0, len(self.memory) - int(self.stored))])

    @torch.no_grad()
    def store(self, x: Tensor | Batch) -> None:
        """Add these patterns to the memory."""
        z = self._standard(x.x if isinstance(x, Batch) else x)
        first = int(self.stored)
        if first + len(z) > len(self.memory):
            raise UsageError(
                f"the memory has room for {len(self.memory)} patterns and holds {first}: {len(z)} more do not fit; "
                "make it with more patterns"
            )
        self.memory[first : first + len(z)] = z
        self.stored += len(z)

    def loss(self, batch: Batch) -> Terms:
        return {"energy": self.energy(batch.x).mean()}

    def energy(self, x: Tensor) -> Tensor:
        """The energy E of each state, (B,)."""
        z, used = self._standard(x), self._used()
        scores = (self.beta * z @ self.memory.T).masked_fill(~used, -torch.inf)
        largest = self.memory.square().sum(1).max()
        constant = used.sum().to(z.dtype).log() / self.beta + 0.5 * largest
        return 0.5 * z.square().sum(1) - scores.logsumexp(1) / self.beta + constant  # eq. (1)

    def retrieve(self, x: Tensor, *, update_steps: int = 3) -> Tensor:
        """The states to which so many updates (2) lead from ``x``, in its shape."""
        at_least(0, update_steps=update_steps)
        z, used = self._standard(x), self._used()
        for _ in range(update_steps):
            z = attention(z, self.memory, self.memory, used.expand(len(z), -1), scale=self.beta)  # eq. (2)
        return self.to_standard.inverse(z).reshape(x.shape)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The patterns that ``retrieve`` finds from ``x``."""
        return self.retrieve(x)

    def forward(self, x: Tensor) -> Tensor:
        """The patterns that ``retrieve`` finds from ``x``."""
        return self.retrieve(x)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Stored patterns, the same with one half of their features lost and noise on the other, and retrieved."""
        count = min(len(x), int(self.stored))
        stored = self.memory[torch.randperm(int(self.stored), generator=generator)[:count]]
        damaged = stored + 0.5 * torch.randn(stored.shape, generator=generator, dtype=stored.dtype)
        damaged[:, math.ceil(self.features / 2) :] = 0  # their mean
        stored, damaged = (self.to_standard.inverse(row).reshape(count, *x.shape[1:]) for row in (stored, damaged))
        return {"stored": stored, "damaged": damaged, "retrieved": self.retrieve(damaged)}

    def _standard(self, x: Tensor) -> Tensor:
        z: Tensor = self.to_standard(flat(x, self.features))
        return z

    def _used(self) -> Tensor:
        """Which rows of the memory hold a pattern, (patterns,); an empty memory holds a pattern of zeros."""
        return torch.arange(len(self.memory), device=self.memory.device) < self.stored.clamp_min(1)
