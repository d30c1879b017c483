"""Creation of tensors: the creation functions of the array API standard, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deepcanon.tensor.errors import TensorError
from deepcanon.tensor.movement import expand, expand_dims, triangle
from deepcanon.tensor.tensor import DType, Tensor, array_of, plain, wrap

Shape = int | tuple[int, ...]


def _on(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise TensorError(f"tensors live on the device 'cpu' only (got {device!r})")


def asarray(obj: Any, /, *, dtype: DType = None, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of numbers, nested lists or an array; an array is shared unless a copy is needed or asked for."""
    _on(device)
    if isinstance(obj, Tensor) and (dtype is None or dtype == obj.dtype):
        return obj.copy() if copy else obj
    return wrap(array_of(obj, dtype, copy))


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array."""
    _on(device)
    return wrap(np.from_dlpack(x) if copy is None else np.from_dlpack(x, copy=copy))


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DType = None, device: str | None = None
) -> Tensor:
    """Numbers from start (or 0) up to but without stop."""
    _on(device)
    return wrap(
        np.arange(start, stop, step, dtype=dtype) if stop is not None else np.arange(0, start, step, dtype=dtype)
    )


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """Equally spaced numbers."""
    _on(device)
    return wrap(np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint))


def empty(shape: Shape, *, dtype: DType = None, device: str | None = None) -> Tensor:
    """A tensor with uninitialized values."""
    _on(device)
    return wrap(np.empty(shape, dtype or np.float64))


def zeros(shape: Shape, *, dtype: DType = None, device: str | None = None) -> Tensor:
    """A tensor of zeros."""
    _on(device)
    return wrap(np.zeros(shape, dtype or np.float64))


def ones(shape: Shape, *, dtype: DType = None, device: str | None = None) -> Tensor:
    """A tensor of ones."""
    _on(device)
    return wrap(np.ones(shape, dtype or np.float64))


def full(shape: Shape, fill_value: complex, *, dtype: DType = None, device: str | None = None) -> Tensor:
    """A tensor that holds one value everywhere."""
    _on(device)
    return wrap(np.full(shape, plain(fill_value), dtype))


def empty_like(x: Tensor, /, *, dtype: DType = None, device: str | None = None) -> Tensor:
    return empty(x.shape, dtype=dtype or x.dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DType = None, device: str | None = None) -> Tensor:
    return zeros(x.shape, dtype=dtype or x.dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType = None, device: str | None = None) -> Tensor:
    return ones(x.shape, dtype=dtype or x.dtype, device=device)


def full_like(x: Tensor, /, fill_value: complex, *, dtype: DType = None, device: str | None = None) -> Tensor:
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType = None, device: str | None = None
) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    _on(device)
    return wrap(np.eye(n_rows, n_cols, k, dtype or np.float64))


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """For each of several axes its coordinate at every point of their grid."""
    n = len(arrays)
    shape = tuple(x.size for x in arrays)
    grids = [expand(expand_dims(x, tuple(i for i in range(n) if i != k)), shape=shape) for k, x in enumerate(arrays)]
    return [g.transpose((1, 0, *range(2, n))) for g in grids] if indexing == "xy" and n > 1 else grids


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangles of matrices."""
    return triangle(x, k, lower=True)  # type: ignore[no-any-return]


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangles of matrices."""
    return triangle(x, k, lower=False)  # type: ignore[no-any-return]


def uniform(
    shape: Sequence[int],
    low: float = 0.0,
    high: float = 1.0,
    *,
    generator: np.random.Generator,
    dtype: DType = np.float64,
    requires_grad: bool = False,
) -> Tensor:
    """Independent draws between two bounds."""
    return wrap(generator.uniform(low, high, tuple(shape)).astype(dtype), requires_grad=requires_grad)


def gaussian(
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    *,
    generator: np.random.Generator,
    dtype: DType = np.float64,
    requires_grad: bool = False,
) -> Tensor:
    """Independent normal draws."""
    return wrap(generator.normal(mean, std, tuple(shape)).astype(dtype), requires_grad=requires_grad)
