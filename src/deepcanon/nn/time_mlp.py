"""A network of vectors and time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepcanon.core.checks import at_least

TIME = 64
"""How many numbers describe a time."""


def time_features(t: Tensor, size: int, longest: float = 1000.0) -> Tensor:
    r"""Sines and cosines of t at ``size / 2`` frequencies, from 1 down to ``1 / longest``: (B,) to (B, size).

    References:
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762

    >>> time_features(torch.tensor([0.0]), 4)
    tensor([[0., 0., 1., 1.]])
    """
    frequency = torch.exp(torch.arange(size // 2, device=t.device, dtype=t.dtype) * (-2 * math.log(longest) / size))
    angle = t.unsqueeze(-1) * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class Block(nn.Module):
    """A residual block of two layers, into which the time enters between them; it starts as the identity."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.inner = nn.Linear(features, hidden)
        self.time = nn.Linear(TIME, hidden)
        self.outer = nn.Linear(hidden, features)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h = nn.functional.silu(self.inner(self.norm(x)) + self.time(time))
        change: Tensor = self.outer(h)
        return x + change


class TimeMLP(nn.Module):
    """A residual network that maps vectors and times to vectors of the same size.

    Times count from 0 to about 1000 and are given for each example, (B,), or once for all, (1,). ``hidden`` are the
    widths of the blocks; the trunk is as wide as the first. What ``also`` says, (B, 64) or (1, 64), enters with the
    time.
    """

    def __init__(self, features: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        at_least(1, blocks=len(hidden))
        at_least(1, hidden=min(hidden))
        trunk = hidden[0]
        self.time = nn.Sequential(nn.Linear(TIME, TIME), nn.SiLU())
        self.first = nn.Linear(features, trunk)
        self.blocks = nn.ModuleList(Block(trunk, size) for size in hidden)
        self.last = nn.Sequential(nn.LayerNorm(trunk), nn.SiLU(), nn.Linear(trunk, features))

    def forward(self, x: Tensor, t: Tensor, also: Tensor | None = None) -> Tensor:
        time = self.time(time_features(t.to(x.dtype), TIME))
        if also is not None:
            time = time + also
        h = self.first(x)
        for block in self.blocks:
            h = block(h, time)
        output: Tensor = self.last(h)
        return output


class ClassTimeMLP(nn.Module):
    """A :class:`TimeMLP` that is told classes, too: each has a vector that is added to the one of the time.

    Classes are given as times are, (B,) or (1,); the number ``classes`` itself stands for a class that is not told.
    """

    def __init__(self, features: int, hidden: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.net = TimeMLP(features, hidden)
        self.label = nn.Embedding(classes + 1, TIME)

    def forward(self, x: Tensor, t: Tensor, y: Tensor) -> Tensor:
        output: Tensor = self.net(x, t, self.label(y))
        return output
