"""Data sets from tensors and arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Batch, DataError, ImagePairs, Labeled, TwoDomains, UsageError
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import image_sizes

SOURCE = "given as tensors"


def from_tensors(
    x: Tensor | np.ndarray[Any, Any], y: Any = None, *, unpaired: Any = None, name: str = "tensors"
) -> Dataset[Any]:
    """A data set with only a training split: images (N, channels, height, width) or rows (N, features).

    Whole numbers ``y`` are classes, (N,); real numbers are targets, (N,) or (N, targets), or images, one of each
    example: (N, channels, height, width). ``unpaired`` are the examples of another domain, as many as there are. All
    real numbers become float32, also those of arrays; only if ``x`` is a tensor of float64 they become float64.

    >>> data = from_tensors(np.zeros((6, 3)), [0, 1, 2, 0, 1, 2])
    >>> data.kind, dict(data.sizes)
    ('table', {'features': 3, 'classes': 3})
    """
    dtype = torch.float64 if isinstance(x, Tensor) and x.dtype == torch.float64 else torch.float32
    x = _real(_tensor(x, "x"), dtype, "x")
    _check_shape(x, "x")
    shape = tuple(x.shape[1:])
    sizes = image_sizes(shape) if x.ndim == 4 else {"features": shape[0]}
    train: AnyBatch = Batch(x)
    if y is not None and unpaired is not None:
        raise UsageError("y belongs to the examples x one by one, unpaired to another domain; give one of them")
    if unpaired is not None or np.ndim(y) == 4:
        other = _real(_tensor(y if unpaired is None else unpaired, "the other domain"), dtype, "the other domain")
        _check_shape(other, "the other domain")
        train = ImagePairs(x, other) if unpaired is None else TwoDomains(x, other)
    elif y is not None:
        labels = _labels(_tensor(y, "y"), dtype)
        if labels.is_floating_point():
            sizes["targets"] = labels.shape[1]
        else:
            sizes["classes"] = int(labels.max()) + 1
        train = Labeled(x, labels)
    return Dataset(
        name=name,
        kind="domains" if isinstance(train, TwoDomains) else "images" if x.ndim == 4 else "table",
        train=train,
        sizes=sizes,
        shape=shape,
        labels=tuple(map(str, range(sizes.get("classes", 0)))),
        source=SOURCE,
    )


def _check_shape(x: Tensor, what: str) -> None:
    if x.ndim not in (2, 4) or 0 in x.shape:
        raise DataError(
            f"{what} must have the shape (N, features) or (N, channels, height, width), with no size 0; "
            f"got {tuple(x.shape)}"
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
