# mypy: disable-error-code="no-any-return"
"""The operators of Python, each implemented by a row of the table."""

from __future__ import annotations

from typing import Any, Self

from deepcanon.tensor import elementwise as e
from deepcanon.tensor.operation import Operand, binary, unary
from deepcanon.tensor.products import matmul


class Operators(Operand):
    """An operand with the operators that a NumPy array has, but for those that write."""

    __slots__ = ()

    __hash__ = object.__hash__

    def __add__(self, other: Any, /) -> Self:
        return binary(e.add, self, other)

    def __radd__(self, other: Any, /) -> Self:
        return binary(e.add, other, self)

    def __sub__(self, other: Any, /) -> Self:
        return binary(e.subtract, self, other)

    def __rsub__(self, other: Any, /) -> Self:
        return binary(e.subtract, other, self)

    def __mul__(self, other: Any, /) -> Self:
        return binary(e.multiply, self, other)

    def __rmul__(self, other: Any, /) -> Self:
        return binary(e.multiply, other, self)

    def __truediv__(self, other: Any, /) -> Self:
        return binary(e.divide, self, other)

    def __rtruediv__(self, other: Any, /) -> Self:
        return binary(e.divide, other, self)

    def __pow__(self, other: Any, /) -> Self:
        return binary(e.power, self, other)

    def __rpow__(self, other: Any, /) -> Self:
        return binary(e.power, other, self)

    def __mod__(self, other: Any, /) -> Self:
        return binary(e.remainder, self, other)

    def __rmod__(self, other: Any, /) -> Self:
        return binary(e.remainder, other, self)

    def __floordiv__(self, other: Any, /) -> Self:
        return e.steps["floor_divide"](self, other)

    def __rfloordiv__(self, other: Any, /) -> Self:
        return e.steps["floor_divide"](other, self)

    def __matmul__(self, other: Any, /) -> Self:
        return matmul(self, other)

    def __rmatmul__(self, other: Any, /) -> Self:
        return matmul(other, self)

    def __neg__(self) -> Self:
        return unary(e.negative, self)

    def __pos__(self) -> Self:
        return unary(e.positive, self)

    def __abs__(self) -> Self:
        return unary(e.absolute, self)

    def __invert__(self) -> Self:
        return e.steps["invert"](self)

    def __and__(self, other: Any, /) -> Self:
        return e.steps["bitwise_and"](self, other)

    def __rand__(self, other: Any, /) -> Self:
        return e.steps["bitwise_and"](other, self)

    def __or__(self, other: Any, /) -> Self:
        return e.steps["bitwise_or"](self, other)

    def __ror__(self, other: Any, /) -> Self:
        return e.steps["bitwise_or"](other, self)

    def __xor__(self, other: Any, /) -> Self:
        return e.steps["bitwise_xor"](self, other)

    def __rxor__(self, other: Any, /) -> Self:
        return e.steps["bitwise_xor"](other, self)

    def __lshift__(self, other: Any, /) -> Self:
        return e.steps["left_shift"](self, other)

    def __rlshift__(self, other: Any, /) -> Self:
        return e.steps["left_shift"](other, self)

    def __rshift__(self, other: Any, /) -> Self:
        return e.steps["right_shift"](self, other)

    def __rrshift__(self, other: Any, /) -> Self:
        return e.steps["right_shift"](other, self)

    def __eq__(self, other: object, /) -> Self:  # type: ignore[override]
        return e.steps["equal"](self, other)

    def __ne__(self, other: object, /) -> Self:  # type: ignore[override]
        return e.steps["not_equal"](self, other)

    def __lt__(self, other: Any, /) -> Self:
        return e.steps["less"](self, other)

    def __le__(self, other: Any, /) -> Self:
        return e.steps["less_equal"](self, other)

    def __gt__(self, other: Any, /) -> Self:
        return e.steps["greater"](self, other)

    def __ge__(self, other: Any, /) -> Self:
        return e.steps["greater_equal"](self, other)
