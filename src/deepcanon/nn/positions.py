"""Position encodings: sinusoidal, in one and two dimensions, concatenated, rotary, and relative position bias."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least

BASE = 10_000.0
"""The wavelengths rise from 2 pi to this many times 2 pi."""


def sinusoidal(length: int, width: int, *, dtype: torch.dtype | None = None) -> Tensor:
    r"""The sinusoidal position encoding, (length, width): sines and cosines of growing wavelength at each position.

    .. math:: r_{n, 2j} = \sin(n \omega_j), \qquad r_{n, 2j+1} = \cos(n \omega_j), \qquad
              \omega_j = 10000^{-2j / d} \qquad (1)

    So :math:`r_n \cdot r_m = \sum_j \cos((n - m) \omega_j)` depends on the distance only, and one matrix shifts
    every position by k (:func:`shift`).

    References:
        | Attention Is All You Need (Vaswani et al., 2017), section 3.5, https://arxiv.org/abs/1706.03762

    >>> sinusoidal(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    at_least(1, length=length, width=width)
    angle = torch.arange(length, dtype=torch.float64).unsqueeze(1) * frequencies(width)  # (length, width / 2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).to(dtype or torch.get_default_dtype())  # eq. (1)


def sinusoidal_2d(height: int, width: int, channels: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """The sinusoidal encoding of pixels, (height, width, channels): one half encodes the row, one the column."""
    if channels % 4:
        raise UsageError(f"rows and columns get sines and cosines: channels must be a multiple of 4 (got {channels})")
    rows = sinusoidal(height, channels // 2, dtype=dtype).unsqueeze(1).expand(-1, width, -1)
    columns = sinusoidal(width, channels // 2, dtype=dtype).unsqueeze(0).expand(height, -1, -1)
    return torch.cat([rows, columns], -1)


def shift(width: int, by: int) -> Tensor:
    r"""The matrix :math:`M_k` with :math:`r_{n+k} = M_k r_n` for every n, (width, width): a rotation of each pair.

    >>> torch.allclose(shift(8, 3) @ sinusoidal(9, 8, dtype=torch.float64)[5], sinusoidal(9, 8, dtype=torch.float64)[8])
    True
    """
    angle = by * frequencies(width)
    turns = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], -1).view(-1, 2, 2)
    matrix: Tensor = torch.block_diag(*turns)
    return matrix


def frequencies(width: int) -> Tensor:
    r"""The angular frequencies :math:`\omega_j` of the pairs of sine and cosine, (width / 2,)."""
    if width % 2:
        raise UsageError(f"each frequency has a sine and a cosine: width must be even (got {width})")
    return BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


class ConcatenatedPositions(nn.Module):
    r"""Sequences with the encoding of each position after its features, (B, T, width): (B, T, width + extra).

    A linear layer after it is one that adds: :math:`W [x; r] = W_x x + W_r r`; an encoding that is added to the
    features is the case :math:`W_r = W_x`.

    Arguments:
        extra: The width of the sinusoidal encoding.
    """

    def __init__(self, extra: int) -> None:
        super().__init__()
        frequencies(extra)  # which refuses an odd width
        self.extra = extra

    def forward(self, x: Tensor) -> Tensor:
        """The sequences with their positions."""
        table = sinusoidal(x.shape[-2], self.extra, dtype=x.dtype).to(x.device)
        return torch.cat([x, table.expand(*x.shape[:-1], -1)], -1)


class Rotary(nn.Module):
    r"""Rotary positions: pairs of values of queries and keys are rotated by angles that grow with the position.

    .. math:: \begin{pmatrix} y_{2j} \\ y_{2j+1} \end{pmatrix} =
              \begin{pmatrix} \cos n \omega_j & -\sin n \omega_j \\ \sin n \omega_j & \cos n \omega_j \end{pmatrix}
              \begin{pmatrix} x_{2j} \\ x_{2j+1} \end{pmatrix} \qquad (2)

    So the product of a query at n and a key at m depends on their values and on n - m, and no value is added. The pairs
    are neighbors, as in the paper; some libraries pair the first half of the values with the second.

    References:
        | RoFormer: Enhanced Transformer with Rotary Position Embedding (Su et al., 2021),
          https://arxiv.org/abs/2104.09864

    Arguments:
        width: The width of a query, which is even.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        frequencies(width)  # which refuses an odd width
        self.width = width

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """The values, (..., T, width), rotated by their positions, of which ``start`` is the first."""
        position = torch.arange(start, start + x.shape[-2], dtype=torch.float64, device=x.device)
        angle = position.unsqueeze(1) * frequencies(self.width).to(x.device)  # (T, width / 2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)  # eq. (2)


class RelativeBias(nn.Module):
    r"""Relative position bias: a learned number for each head and distance, added to the attention scores.

    .. math:: s_{ij} = \frac{q_i \cdot k_j}{\sqrt d} + b_{h,\, \mathrm{clip}(j - i)} \qquad (3)

    Distances beyond ``reach`` share the number of the farthest. As in attention, the last query stands at the last key.

    References:
        | Self-Attention with Relative Position Representations (Shaw et al., 2018), https://arxiv.org/abs/1803.02155
        | Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (Raffel et al., 2020),
          https://arxiv.org/abs/1910.10683

    Arguments:
        heads: The number of heads.
        reach: The largest distance that has a number of its own, to either side.
    """

    def __init__(self, heads: int, reach: int = 32) -> None:
        super().__init__()
        at_least(1, heads=heads, reach=reach)
        self.reach = reach
        self.table = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def forward(self, queries: int, keys: int) -> Tensor:
        """The bias of every pair, (heads, queries, keys)."""
        device = self.table.device
        position = torch.arange(keys - queries, keys, device=device)
        distance = torch.arange(keys, device=device) - position.unsqueeze(1)
        return self.table[:, distance.clamp(-self.reach, self.reach) + self.reach]  # b in eq. (3)
