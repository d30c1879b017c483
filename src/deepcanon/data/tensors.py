"""Data sets from tensors and arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import Batch, DataError, Labeled, UsageError
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes
from deepcanon.data.text.sentence_rows import sentence_pairs_from
from deepcanon.data.text.text_pairs import pairs_from

SOURCE = "given as tensors"


def from_tensors(
    x: Tensor | np.ndarray[Any, Any],
    y: Any = None,
    *,
    name: str = "tensors",
    lengths: Any = None,
    y_lengths: Any = None,
    segments: Any = None,
) -> Dataset[Any]:
    """A data set with only a training split: images (N, channels, height, width) or rows (N, features).

    Whole numbers ``y`` are classes, (N,); real numbers are targets, (N,) or (N, targets). All real numbers become
    float32, also those of arrays; only if ``x`` is a tensor of float64 they become float64. With ``y_lengths`` (N,),
    ``y`` are target sequences of tokens, (N, T), from the begin to the end token: of sequences of tokens ``x`` (N, S),
    of which the first ``lengths`` (N,) count, or of images, as their captions. With ``segments`` (N, T), ``x`` are
    pairs of sentences and ``y`` says which follow each other.

    >>> data = from_tensors(np.zeros((6, 3)), [0, 1, 2, 0, 1, 2])
    >>> data.kind, dict(data.sizes)
    ('table', {'features': 3, 'classes': 3})
    """
    if segments is not None:
        if y_lengths is not None:
            raise UsageError("pairs of sentences have segments, pairs of sequences have y_lengths: give one of them")
        rows, labels = (
            None if part is None else _tensor(part, what) for part, what in ((lengths, "lengths"), (y, "y"))
        )
        return sentence_pairs_from(_tensor(x, "x"), rows, _tensor(segments, "segments"), labels, name, SOURCE)
    if y_lengths is not None:
        sources = None if lengths is None else _tensor(lengths, "lengths")
        targets = None if y is None else _tensor(y, "y")
        return pairs_from(_tensor(x, "x"), sources, targets, _tensor(y_lengths, "y_lengths"), name, SOURCE)
    if lengths is not None:
        raise UsageError("lengths are those of source sequences, whose targets have theirs: give y_lengths, too")
    dtype = torch.float64 if isinstance(x, Tensor) and x.dtype == torch.float64 else torch.float32
    x = _real(_tensor(x, "x"), dtype, "x")
    if x.ndim not in (2, 4) or 0 in x.shape:
        raise DataError(
            f"x must have the shape (N, features) or (N, channels, height, width), with no size 0; got {tuple(x.shape)}"
        )
    shape = tuple(x.shape[1:])
    sizes = image_sizes(shape) if x.ndim == 4 else {"features": shape[0]}
    train: Batch = Batch(x)
    if y is not None:
        labels = _labels(_tensor(y, "y"), dtype)
        if labels.is_floating_point():
            sizes["targets"] = labels.shape[1]
        else:
            sizes["classes"] = int(labels.max()) + 1
        train = Labeled(x, labels)
    return Dataset(
        name=name,
        kind="images" if x.ndim == 4 else "table",
        train=train,
        sizes=sizes,
        shape=shape,
        labels=tuple(map(str, range(sizes.get("classes", 0)))),
        source=SOURCE,
    )


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.tensor(np.asarray(values))
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be a tensor or an array of numbers: {error}") from error


def _real(values: Tensor, dtype: torch.dtype, what: str) -> Tensor:
    if values.is_complex():
        raise DataError(f"{what} must be real, got {values.dtype}")
    values = values.to(dtype)
    if not values.isfinite().all():
        raise DataError(f"{what} has NaN or infinite values; mend or remove them first")
    return values


def _labels(y: Tensor, dtype: torch.dtype) -> Tensor:
    if y.is_floating_point() or y.is_complex():
        y = _real(y, dtype, "y")
        y = y.unsqueeze(1) if y.ndim == 1 else y
        if y.ndim != 2 or 0 in y.shape:
            raise DataError(f"real-valued y must have the shape (N,) or (N, targets), got {tuple(y.shape)}")
        return y
    if y.ndim != 1 or not len(y):
        raise DataError(f"classes y must have the shape (N,), got {tuple(y.shape)}")
    if int(y.min()) < 0:
        raise DataError(f"classes y must count from 0, got {int(y.min())}")
    return y.long()
