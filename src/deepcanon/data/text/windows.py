"""Windows of a stream of tokens, and the stream of given windows."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import DataError, Sequences


def windows(stream: Tensor, length: int) -> Sequences:
    """The stream, (N,), cut into windows of ``length + 1`` tokens.

    The last token of a window is the first of the next, so that a model which predicts every token of a window but
    its first predicts every token of the stream but its first exactly once. The last window may be shorter.

    >>> windows(torch.arange(6), length=2).x
    tensor([[0, 1, 2],
            [2, 3, 4],
            [4, 5, 0]])
    """
    if len(stream) < 2:
        raise DataError(f"a text needs at least 2 tokens, so that one can be predicted; got {len(stream)}")
    starts = torch.arange(0, len(stream) - 1, length)
    positions = starts[:, None] + torch.arange(length + 1)  # (windows, length + 1)
    inside = positions < len(stream)
    return Sequences(x=torch.where(inside, stream[positions.clamp_max(len(stream) - 1)], 0), lengths=inside.sum(1))


def stream(part: Sequences) -> Tensor:
    """The stream that was cut into these windows: the first token, and all that are predicted in them.

    >>> stream(windows(torch.arange(6), length=2))
    tensor([0, 1, 2, 3, 4, 5])
    """
    predicted = torch.arange(1, part.x.shape[1], device=part.x.device) < part.lengths.unsqueeze(1)
    return torch.cat([part.x[0, :1], part.x[:, 1:][predicted]])
