"""Data types, constants and the inspection functions of the array API standard."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from deepcanon.tensor.tensor import DType, Tensor

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(name) for name in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64"))
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

e, inf, nan, pi, newaxis = np.e, np.inf, np.nan, np.pi, None

_ALL = {
    str(dtype): dtype
    for dtype in (
        bool,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
        float32,
        float64,
        complex64,
        complex128,
    )
}


class FloatInfo(NamedTuple):
    """The limits of a floating-point type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


class IntegerInfo(NamedTuple):
    """The limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def _dtype(type: Any) -> np.dtype[Any]:
    return type.dtype if isinstance(type, Tensor) else np.dtype(type)


def finfo(type: DType | Tensor, /) -> FloatInfo:
    """The limits of a floating-point type; of a complex one, those of its parts."""
    info = np.finfo(_dtype(type))
    eps, top, bottom, small = (float(value) for value in (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(int(info.bits), eps, top, bottom, small, np.dtype(info.dtype))


def iinfo(type: DType | Tensor, /) -> IntegerInfo:
    """The limits of an integer type."""
    info = np.iinfo(_dtype(type))
    return IntegerInfo(int(info.bits), int(info.max), int(info.min), np.dtype(info.dtype))


def isdtype(dtype: DType, kind: Any) -> Any:
    """Whether a type is of a kind ("bool", "integral", "real floating" ...), is a given type, or one of a tuple."""
    return np.isdtype(dtype, kind)


def can_cast(from_: DType | Tensor, to: DType, /) -> Any:
    """Whether the rules of promotion lead from one type to another."""
    return np.can_cast(_dtype(from_), to)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The type that numbers of several types are promoted to; Python's numbers do not count."""
    return np.result_type(*(x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes))


class Info:
    """The inspection functions of this namespace, as in the standard."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> list[str]:
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        return {"real floating": float64, "complex floating": complex128, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, Any]:
        return {name: dtype for name, dtype in _ALL.items() if kind is None or np.isdtype(dtype, kind)}


def __array_namespace_info__() -> Info:
    return Info()
