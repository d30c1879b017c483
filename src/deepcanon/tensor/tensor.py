# mypy: disable-error-code="no-any-return"
"""The tensor: a view of a storage, with the operators and methods that a NumPy array has, and a node in the graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from sys import getrefcount
from typing import Any, Final

import numpy as np

from deepcanon.tensor import elementwise as e
from deepcanon.tensor import movement as m
from deepcanon.tensor import reductions as r
from deepcanon.tensor.errors import GradientError, ShapeError, TensorError
from deepcanon.tensor.layout import Layout, resolve_shape
from deepcanon.tensor.movement import Axes
from deepcanon.tensor.operation import NUMPY, Node, Operand, Operation, recording, unary
from deepcanon.tensor.operators import Operators
from deepcanon.tensor.storage import Storage

DType = Any
_KINDS: Final = "biufc"
_ALONE: Final = 2
"""References to a storage that only one tensor holds: the tensor's and getrefcount's own."""


def plain(x: Any) -> Any:
    """The array of a tensor; anything else as it is."""
    return x.array if isinstance(x, Operand) else x


def tensor(data: Any, dtype: DType = None, *, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of numbers, an array or a tensor that is not recorded.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> x * x + 1
    tensor([2., 5.], op=add)
    """
    return wrap(array_of(data, dtype, copy=True), requires_grad=requires_grad)


def array_of(data: Any, dtype: DType = None, copy: bool | None = None) -> Any:
    """The array of numbers, nested lists (of tensors, too) or an array."""
    nested = _nested(data)
    try:
        return np.array(nested, dtype=dtype, copy=copy)
    except ValueError as error:
        if not isinstance(nested, list):
            raise
        raise ShapeError(f"nested lists make a tensor if all lists of a depth are equally long: {error}") from error


def _nested(data: Any) -> Any:
    """Lists of tensors as lists of arrays."""
    if isinstance(data, list | tuple):
        return [_nested(entry) for entry in data]
    return np.asarray(data) if isinstance(data, Tensor) else data


def wrap(array: Any, *, requires_grad: bool = False) -> Tensor:
    """A tensor over an array, which it shares."""
    array = np.asarray(array)
    if array.dtype.kind not in _KINDS:
        raise TensorError(f"a tensor holds numbers or truth values (got an array of {array.dtype})")
    out = Tensor.__new__(Tensor)
    out.array, out.node, out._storage = array, None, None
    if requires_grad:
        if array.dtype.kind != "f":
            raise GradientError(f"only real floating-point tensors have derivatives (got {array.dtype}); use astype")
        out.node = Node.leaf(array, needs=True)
    return out


LONGEST: Final = 1000
"""The most characters of the numbers that a tensor shows; of more it shows the first and the last ones."""


class Tensor(Operators):
    """A view of a storage: shape, strides and offset say where its elements lie; ``node`` how it was computed."""

    __slots__ = ()

    def __init__(self) -> None:
        raise TensorError("make a tensor with tensor(data), asarray(data), zeros(shape) ... (Tensor() takes nothing)")

    # What it is.

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def storage(self) -> Storage:
        """The flat memory of the tensor, shared by all views."""
        if self._storage is None:
            self._storage = Storage(self.array)
            if self.node is not None:
                self._storage.watch(self.node)
        return self._storage

    @property
    def layout(self) -> Layout:
        return self.storage.layout_of(self.array)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides: the elements that one step along each axis goes on in the storage."""
        return self.layout.strides

    @property
    def offset(self) -> int:
        """The offset of the first element in the storage."""
        return self.layout.offset

    @property
    def requires_grad(self) -> bool:
        """Whether a derivative with respect to it can be asked for."""
        return self.node is not None and self.node.needs

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as an array over the same memory, for reading only."""
        view = self.array.view()
        view.flags.writeable = False
        return view

    def item(self) -> Any:
        """The single element as a Python number."""
        if self.size != 1:
            raise ShapeError(f"item needs a tensor with one element (got shape {self.shape})")
        return self.array.item()

    def tolist(self) -> Any:
        return self.array.tolist()

    def detach(self) -> Tensor:
        """The same values, cut off from the graph."""
        out = wrap(self.array)
        out._storage = self.storage
        return out

    def copy(self) -> Tensor:
        """A copy with a storage of its own, recorded like any operation."""
        return unary(e.positive, self) if self.dtype.kind != "b" else wrap(self.array.copy())

    def to_device(self, device: str, /, *, stream: None = None) -> Tensor:
        if device != "cpu" or stream is not None:
            raise TensorError(f"tensors live on the device 'cpu' only (got {device!r}, stream {stream!r})")
        return self

    def __repr__(self) -> str:
        notes = "" if self.dtype in (np.float64, np.int64, np.bool_) else f", dtype={self.dtype}"
        if self.requires_grad and self.node is not None:
            notes += ", requires_grad=True" if self.node.op is None else f", op={self.node.op.name}"
        whole = f"tensor({np.array2string(self.array, separator=', ', prefix='tensor(')}{notes})"
        if len(whole) <= LONGEST:
            return whole
        for edge in (3, 2, 1):
            cut = np.array2string(self.array, separator=", ", prefix="tensor(", threshold=0, edgeitems=edge)
            if len(cut) <= LONGEST:
                return f"tensor({cut}, shape={self.shape}{notes})"
        return f"tensor(..., shape={self.shape}{notes})"

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def _scalar(self, convert: Callable[[Any], Any]) -> Any:
        if self.ndim:
            raise TypeError(f"only a tensor without axes can become a Python number (got shape {self.shape})")
        return convert(self.array.item())

    def __bool__(self) -> bool:
        return self._scalar(bool)

    def __float__(self) -> float:
        return self._scalar(float)

    def __int__(self) -> int:
        return self._scalar(int)

    def __complex__(self) -> complex:
        return self._scalar(complex)

    def __index__(self) -> int:
        return self._scalar(operator.index)

    # NumPy's protocols, and those of the array API standard.

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self.requires_grad and recording.on:
            raise GradientError(
                "a recorded tensor was about to become an array and lose its derivative; put tensors together with "
                "stack or concat, use a function of the table, or say x.numpy() if no derivative is wanted"
            )
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or ufunc not in NUMPY or options:
            asked = f".{method}" * (method != "__call__") + f" with {', '.join(options)}" * bool(options)
            raise TypeError(_unknown(f"np.{ufunc.__name__}{asked}"))
        return NUMPY[ufunc](*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function not in NUMPY or options.get("out") is not None:
            raise TypeError(_unknown(f"np.{function.__name__}"))
        return NUMPY[function](*args, **options)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        if api_version not in (None, "2021.12", "2022.12", "2023.12"):
            raise ValueError(f"deepcanon.tensor follows the array API 2023.12 (asked for {api_version})")
        import deepcanon.tensor

        return deepcanon.tensor

    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return self.array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self, /) -> tuple[Any, Any]:
        return self.array.__dlpack_device__()

    # Movement.

    @property
    def T(self) -> Tensor:
        if self.ndim != 2:
            raise ShapeError(f"T transposes a matrix (got shape {self.shape}); use permute or mT")
        return m.swapaxes(self, 0, 1)

    @property
    def mT(self) -> Tensor:
        if self.ndim < 2:
            raise ShapeError(f"mT transposes the last two axes (got shape {self.shape})")
        return m.swapaxes(self, -1, -2)

    def reshape(self, *shape: Any) -> Tensor:
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return m.reshape(self, shape=resolve_shape(self.shape, tuple(operator.index(size) for size in sizes)))

    def transpose(self, axes: tuple[int, ...] | None = None) -> Tensor:
        return m.permute(self, axes=tuple(range(self.ndim))[::-1] if axes is None else m.axes_of(axes, self.ndim))

    def permute(self, *axes: int) -> Tensor:
        return self.transpose(axes)

    def expand(self, *shape: int) -> Tensor:
        return m.expand(self, shape=shape)

    def astype(self, dtype: DType) -> Tensor:
        return m.astype(self, dtype=np.dtype(dtype))

    # Reductions.

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return r.sum_(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return r.mean(self, axis=axis, keepdims=keepdims)

    def var(self, axis: Axes = None, keepdims: bool = False, correction: float = 0) -> Tensor:
        return r.var(self, axis=axis, keepdims=keepdims, correction=correction)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return r.max_(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return r.min_(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None) -> Tensor:
        return r.counts["argmax"](self, axis=axis)

    # Reading and writing parts.

    def __getitem__(self, key: Any, /) -> Tensor:
        return m.getitem(self, key=m.plain_key(key))

    def __setitem__(self, key: Any, value: Any, /) -> None:
        """Write to a part of it.

        A recorded tensor becomes another one, computed by :func:`set_at`: the write is differentiable, and what was
        computed from the old values keeps them. Anything else is overwritten in its storage, unless a derivative
        still needs it.
        """
        if self._becomes_recorded(value):
            new = m.set_at(self, key, value)
            self.array, self.node, self._storage = new.array, new.node, None
        else:
            self._prepare_write()
            self.array[m.plain_key(key)] = plain(value)

    def _becomes_recorded(self, other: Any) -> bool:
        """Whether a write must be recorded; refuse it where that cannot be done."""
        recorded = self.requires_grad or (isinstance(other, Tensor) and other.requires_grad)
        if not recorded or not recording.on:
            return False
        if self.requires_grad and self.node is not None and self.node.op is None:
            raise GradientError(
                "this tensor is a leaf: derivatives are taken at its value, so a recorded computation cannot write to "
                "it; use y = set_at(x, index, value), or write inside no_grad()"
            )
        if self._storage is not None and getrefcount(self._storage) > _ALONE:
            raise GradientError(
                "this tensor shares its memory with another (a view, its base or a detached one), which a recorded "
                "write would not reach; use y = set_at(x, index, value), or write to x.copy()"
            )
        return True

    def _prepare_write(self) -> None:
        if not self.array.flags.writeable:
            raise TensorError(
                "this tensor can only be read: it is expanded, or over a read-only array; write to x.copy()"
            )
        self.storage.prepare_write(self.node)

    def _write(self, op: Operation, other: Any) -> Tensor:
        """An operator that writes its result to this tensor."""
        if self._becomes_recorded(other):
            self[...] = op(self, other)
        else:
            self._prepare_write()
            op.forward(self.array, plain(other), out=self.array)
        return self

    def __iadd__(self, other: Any, /) -> Tensor:
        return self._write(e.add, other)

    def __isub__(self, other: Any, /) -> Tensor:
        return self._write(e.subtract, other)

    def __imul__(self, other: Any, /) -> Tensor:
        return self._write(e.multiply, other)

    def __itruediv__(self, other: Any, /) -> Tensor:
        return self._write(e.divide, other)


def _unknown(name: str) -> str:
    return f"{name} is not in the table of operations that take tensors; give it x.numpy(), which has no derivative"
