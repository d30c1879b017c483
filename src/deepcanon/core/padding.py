"""Sequences right-padded to one length: which positions count, and whether their tokens are in the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from deepcanon.core.errors import DataError


def shows_values(x: Tensor) -> bool:
    """Whether the numbers of a tensor can be looked at: not on the meta device, in torch.func, nor in an export."""
    # torch.compile is asked first, since it cannot trace the question of torch.func.
    return not (torch.compiler.is_compiling() or x.is_meta or is_functorch_wrapped_tensor(x))


def valid_positions(x: Tensor, lengths: Tensor) -> Tensor:
    """The padding mask, (B, T): True where a position is not padding."""
    return torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)


def has_padding(x: Tensor, lengths: Tensor) -> bool:
    """Whether some position may be padding: a row ends before the last one, or the lengths cannot be looked at."""
    return not shows_values(lengths) or bool((lengths < x.shape[1]).any())


def without_padding(x: Tensor, lengths: Tensor) -> Tensor:
    """The sequences with zeros in the padding, whatever was there: NaN would pass into the gradients.

    >>> without_padding(torch.tensor([[7, 8, -1]]), torch.tensor([2]))
    tensor([[7, 8, 0]])
    """
    if not has_padding(x, lengths):
        return x
    inside = valid_positions(x, lengths)
    return x.masked_fill(~inside.view(*inside.shape, *[1] * (x.ndim - 2)), 0)


def full_lengths(x: Tensor) -> Tensor:
    """The lengths of rows without padding, (B,)."""
    return torch.full(x.shape[:1], x.shape[1], device=x.device)


def check_lengths(x: Tensor, lengths: Tensor) -> None:
    """Refuse lengths that are not one whole number for each row, from 1 to the number of positions."""
    if lengths.shape != x.shape[:1] or lengths.is_floating_point():
        raise DataError(
            f"{len(x)} sequences have as many lengths, whole numbers; got {lengths.dtype} of {tuple(lengths.shape)}"
        )
    if not shows_values(lengths):
        return
    if lengths.numel() == 0:
        return
    least, most = (int(each) for each in lengths.aminmax())
    if not 1 <= least <= most <= x.shape[1]:
        found = f"from {least} to {most}"
        raise DataError(f"sequences padded to {x.shape[1]} positions have lengths from 1 to {x.shape[1]}; got {found}")


def known_tokens(x: Tensor, lengths: Tensor | None, vocab: int) -> Tensor:
    """The tokens with zeros in the padding, if all others are in the vocabulary.

    >>> known_tokens(torch.tensor([[1, 9, -1]]), torch.tensor([2]), vocab=8)
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.DataError: tokens are whole numbers from 0 to 7; got 9 at position 1 of row 0
    """
    if x.ndim != 2 or x.is_floating_point():
        raise DataError(f"rows of tokens are whole numbers of the shape (B, T); got {x.dtype} of {tuple(x.shape)}")
    if lengths is not None:
        check_lengths(x, lengths)
    known = x if lengths is None else without_padding(x, lengths)
    if not shows_values(known) or known.numel() == 0:
        return known
    least, most = known.aminmax()
    if int(least) < 0 or int(most) >= vocab:
        row, position = ((known < 0) | (known >= vocab)).nonzero()[0].tolist()
        raise DataError(
            f"tokens are whole numbers from 0 to {vocab - 1}; got {int(known[row, position])} at position {position} "
            f"of row {row}"
        )
    return known
