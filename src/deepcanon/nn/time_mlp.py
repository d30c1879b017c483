"""Time-conditioned residual MLP: the network of diffusion models for vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepcanon.core.checks import at_least

TIME = 64
"""The size of the time embedding."""


def time_features(t: Tensor, size: int, longest: float = 1000.0) -> Tensor:
    r"""The sinusoidal embedding of times, (B,) to (B, size), at ``size / 2`` frequencies from 1 to ``1 / longest``.

    References:
        | Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762

    >>> time_features(torch.tensor([0.0]), 4)
    tensor([[0., 0., 1., 1.]])
    """
    frequency = torch.exp(torch.arange(size // 2, device=t.device, dtype=t.dtype) * (-2 * math.log(longest) / size))
    angle = t.unsqueeze(-1) * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class TimeBlock(nn.Module):
    """A residual block of two layers with the time embedding added between them; initialized to the identity."""

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
    """A residual MLP conditioned on time: vectors and times to vectors of the same size, or of so many ``outputs``.

    Times are from 0 to about 1000, one for each example, (B,), or one for all, (1,). ``hidden`` are the widths of the
    blocks; the residual stream is as wide as the first. A further ``condition``, an embedding (B, 64) or (1, 64), is
    added to that of the time.
    """

    def __init__(self, features: int, hidden: tuple[int, ...], outputs: int | None = None) -> None:
        super().__init__()
        at_least(1, blocks=len(hidden))
        at_least(1, hidden=min(hidden))
        width = hidden[0]
        self.time = nn.Sequential(nn.Linear(TIME, TIME), nn.SiLU())
        self.first = nn.Linear(features, width)
        self.blocks = nn.ModuleList(TimeBlock(width, size) for size in hidden)
        self.last = nn.Sequential(
            nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, features if outputs is None else outputs)
        )

    def forward(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        time = self.time(time_features(t.to(x.dtype), TIME))
        if condition is not None:
            time = time + condition
        h = self.first(x)
        for block in self.blocks:
            h = block(h, time)
        output: Tensor = self.last(h)
        return output


class ClassTimeMLP(nn.Module):
    """A class-conditional :class:`TimeMLP`: the embedding of the class is added to that of the time.

    Classes are given as times are, (B,) or (1,); the number ``classes`` itself is the null class, without a condition.
    """

    def __init__(self, features: int, hidden: tuple[int, ...], classes: int, outputs: int | None = None) -> None:
        super().__init__()
        self.net = TimeMLP(features, hidden, outputs)
        self.label = nn.Embedding(classes + 1, TIME)

    def forward(self, x: Tensor, t: Tensor, y: Tensor) -> Tensor:
        output: Tensor = self.net(x, t, self.label(y))
        return output
