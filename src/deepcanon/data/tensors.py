"""Data sets from tensors and arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import Batch, DataError, Incomplete, Labeled, UsageError
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes

SOURCE = "given as tensors"


def from_tensors(
    x: Tensor | np.ndarray[Any, Any], y: Any = None, *, name: str = "tensors", observed: Any = None
) -> Dataset[Any]:
    """A data set with only a training split: images (N, channels, height, width) or rows (N, features).

    Whole numbers ``y`` are classes, (N,); real numbers are targets, (N,) or (N, targets). All real numbers become
    float32, also those of arrays; only if ``x`` is a tensor of float64 they become float64. ``observed`` marks the
    entries of rows that are there where others are missing, (N, features); what x has elsewhere, NaN or anything, is
    never read. If all that is there are whole numbers from 1 on, they are ratings.

    >>> data = from_tensors(np.zeros((6, 3)), [0, 1, 2, 0, 1, 2])
    >>> data.kind, dict(data.sizes)
    ('table', {'features': 3, 'classes': 3})
    """
    dtype = torch.float64 if isinstance(x, Tensor) and x.dtype == torch.float64 else torch.float32
    if observed is not None:
        return _incomplete(_tensor(x, "x").to(dtype), y, _tensor(observed, "observed"), name)
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


def _incomplete(x: Tensor, y: Any, observed: Tensor, name: str) -> Dataset[Incomplete]:
    """Rows with missing entries."""
    if y is not None:
        raise UsageError("rows with missing entries have no labels y; a model of them predicts what is missing")
    if x.ndim != 2 or 0 in x.shape or observed.dtype != torch.bool or observed.shape != x.shape:
        raise DataError(
            "x and observed must have the shape (N, features), and observed be true where an entry is there; got "
            f"{tuple(x.shape)} and {observed.dtype} of the shape {tuple(observed.shape)}"
        )
    there = _real(x[observed], x.dtype, "what is observed of x")
    sizes = {"features": x.shape[1]}
    rated = len(there) > 0 and bool((there >= 1).all()) and bool((there == there.round()).all())
    if rated:
        sizes["ratings"] = max(2, int(there.max()))
    return Dataset(
        name=name, kind="ratings" if rated else "table", train=Incomplete(x.masked_fill(~observed, torch.nan)),
        sizes=sizes, shape=(x.shape[1],), source=SOURCE,
    )  # fmt: skip


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
        raise DataError(
            f"{what} has NaN or infinite values; mend or remove them first, or say which are there by observed="
        )
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
