"""The namespace as the Python array API standard has it: names, signatures, and results equal to array-api-strict's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon.tensor as dt

strict = pytest.importorskip("array_api_strict", reason="the oracle of the array API standard is not installed")

LEFT_OUT = {
    "fft": "an optional extension; no model of the canon needs it",
}
"""Names of version 2023.12 that are not here, and why."""

LATER = {
    "broadcast_shapes",
    "count_nonzero",
    "cumulative_prod",
    "diff",
    "isin",
    "nextafter",
    "reciprocal",
    "take_along_axis",
}
"""Names that came after version 2023.12."""

OWN = {"Device", "ArrayAPIStrictFlags", "__version__"}
"""Names that belong to the oracle, not to the standard."""


@pytest.fixture(autouse=True)
def version() -> Iterator[None]:
    strict.set_array_api_strict_flags(api_version="2023.12")
    yield
    strict.reset_array_api_strict_flags()


NAMES = sorted(name for name in set(strict.__all__) - LATER - OWN if "flags" not in name)


def test_every_name_of_the_standard_is_here_but_for_those_with_a_reason() -> None:
    assert {name for name in NAMES if not hasattr(dt, name)} == set(LEFT_OUT)
    assert [name for name in strict.linalg.__all__ if not hasattr(dt.linalg, name)] == []
    assert set(NAMES) - set(LEFT_OUT) <= set(dt.__all__)
    assert dt.zeros(1).__array_namespace__() is dt
    assert dt.__array_api_version__ == "2023.12"


Signature = list[tuple[str, Any, Any]]

BY_PLACE, KEYWORD = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
EMPTY = inspect.Parameter.empty

CHANGED_LATER: dict[str, Signature] = {
    "expand_dims": [("x", BY_PLACE, EMPTY), ("axis", KEYWORD, 0)],
    "to_device": [("device", BY_PLACE, EMPTY), ("stream", KEYWORD, None)],
}
"""Signatures of version 2023.12 in whose place the oracle has those of a later version, or its own."""


def signature(function: Any) -> Signature:
    """Names, kinds and defaults; what the oracle cannot tell from None, it calls undefined."""
    return [
        (p.name, p.kind, None if type(p.default).__name__ == "Undef" else p.default)
        for p in inspect.signature(function).parameters.values()
    ]


FUNCTIONS = [name for name in NAMES if inspect.isfunction(getattr(strict, name)) and name not in LEFT_OUT]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures(name: str) -> None:
    assert signature(getattr(dt, name)) == CHANGED_LATER.get(name, signature(getattr(strict, name)))


@pytest.mark.parametrize("name", strict.linalg.__all__)
def test_signatures_of_linalg(name: str) -> None:
    assert signature(getattr(dt.linalg, name)) == signature(getattr(strict.linalg, name))


def test_signatures_of_methods() -> None:
    array, own = type(strict.asarray([1.0])), {"__new__", "__init__", "__str__", "__repr__", "__reduce__"}
    methods = [name for name in dir(array) if inspect.isfunction(getattr(array, name)) and name not in own]
    ours = {name: getattr(dt.Tensor, name) for name in methods if hasattr(dt.Tensor, name)}
    assert {"__dlpack__", "__dlpack_device__", "__array_namespace__", "__add__", "to_device"} <= ours.keys()

    def called(function: Any) -> Signature:  # on an instance, so that self is given
        return signature(function)[1:]

    wanted = {name: CHANGED_LATER.get(name) or called(getattr(array, name)) for name in ours}
    assert {name: called(method) for name, method in ours.items()} == wanted


def test_attributes_and_methods_of_an_array() -> None:
    x = strict.asarray([[1.0]])
    public = {name for name in dir(x) if not name.startswith("_")}
    operators = {name for name in dir(strict.asarray([[1]])) if name.startswith("__") and name.endswith("__")}
    inherited = set(dir(object)) | {
        "__module__",
        "__array_priority__",
        "__buffer__",
        "__annotations__",
        "__weakref__",
        "__dict__",
    }
    assert public - set(dir(dt.Tensor)) == set()
    assert operators - set(dir(dt.Tensor)) - inherited == IN_PLACE_BY_PYTHON


IN_PLACE_BY_PYTHON = {
    *(
        "__iand__",
        "__ifloordiv__",
        "__ilshift__",
        "__imatmul__",
        "__imod__",
        "__ior__",
        "__ipow__",
        "__irshift__",
        "__ixor__",
    )
}
"""Operators that Python answers with the one that does not write: ``x %= y`` is ``x = x % y``."""

DATA: dict[str, Any] = {
    "real": [[1.5, -2.0, 0.25], [3.0, -0.5, 8.0]],
    "positive": [[0.5, 2.0, 0.25], [3.0, 0.5, 8.0]],
    "small": [[0.5, -0.25, 0.125], [0.75, -0.5, 0.0]],
    "integers": [[3, -1, 7], [2, 5, -4]],
    "truths": [[True, False, True], [False, False, True]],
    "complex": [[1 + 2j, -1j, 0.5], [2.0, 1 - 1j, 3j]],
}


def of(xp: Any, kind: str) -> Any:
    return xp.asarray(DATA[kind])


UNARY = {
    "real": "abs atan ceil cos cosh exp expm1 floor isfinite isinf isnan negative positive round sign signbit sin "
    "asinh sinh square tan tanh trunc",
    "positive": "log log10 log1p log2 sqrt",
    "small": "acos asin atanh",
    "integers": "abs bitwise_invert ceil floor negative positive round sign square trunc",
    "truths": "logical_not bitwise_invert",
    "complex": "abs conj exp imag negative real sign sin sqrt square",
}
BINARY = {
    "real": "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp "
    "maximum minimum multiply not_equal remainder subtract",
    "positive": "pow",
    "integers": "add bitwise_and bitwise_or bitwise_xor equal floor_divide greater less maximum multiply "
    "remainder subtract",
    "truths": "bitwise_and logical_and logical_or logical_xor equal",
    "complex": "add divide equal multiply pow subtract",
}
CALLS: dict[str, Callable[[Any], Any]] = {}


def unary(name: str, kind: str) -> Callable[[Any], Any]:
    return lambda xp: getattr(xp, name)(of(xp, kind))


def binary(name: str, kind: str) -> Callable[[Any], Any]:
    return lambda xp: getattr(xp, name)(of(xp, kind), xp.flip(of(xp, kind)))


def of_matrix(f: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda xp: f(xp, xp.linalg, xp.asarray(MATRIX))


CALLS |= {f"{name} {kind}": unary(name, kind) for kind, names in UNARY.items() for name in names.split()}
CALLS |= {f"{name} {kind}": binary(name, kind) for kind, names in BINARY.items() for name in names.split()}
CALLS |= {
    "acosh": lambda xp: xp.acosh(of(xp, "positive") + 1.0),
    "shifts": lambda xp: xp.bitwise_right_shift(
        xp.bitwise_left_shift(of(xp, "integers"), xp.asarray(2)), xp.asarray(1)
    ),
    "clip": lambda xp: xp.clip(of(xp, "real"), -1.0, 2.0),
    "clip below": lambda xp: xp.clip(of(xp, "integers"), min=0),
    "where": lambda xp: xp.where(of(xp, "truths"), of(xp, "real"), of(xp, "small")),
    "arange": lambda xp: xp.arange(1, 10, 3),
    "arange float": lambda xp: xp.arange(5.0),
    "linspace": lambda xp: xp.linspace(0, 1, 5, endpoint=False),
    "eye": lambda xp: xp.eye(2, 3, k=1, dtype=xp.float32),
    "full": lambda xp: xp.full((2, 2), 7),
    "full bool": lambda xp: xp.full((2,), True),
    "full_like": lambda xp: xp.full_like(of(xp, "integers"), 2),
    "zeros_like": lambda xp: xp.zeros_like(of(xp, "real"), dtype=xp.int16),
    "ones": lambda xp: xp.ones(3),
    "meshgrid": lambda xp: xp.meshgrid(xp.arange(3), xp.arange(2)),
    "meshgrid ij": lambda xp: xp.meshgrid(xp.arange(3), xp.arange(2), indexing="ij"),
    "tril": lambda xp: xp.tril(of(xp, "integers"), k=-1),
    "triu": lambda xp: xp.triu(of(xp, "real")),
    "astype": lambda xp: xp.astype(of(xp, "real"), xp.int32),
    "asarray": lambda xp: xp.asarray([1, 2], dtype=xp.float32, copy=True),
    "broadcast_to": lambda xp: xp.broadcast_to(xp.asarray([1, 2, 3]), (2, 3)),
    "broadcast_arrays": lambda xp: xp.broadcast_arrays(xp.asarray([1, 2, 3]), xp.asarray([[1], [2]])),
    "concat": lambda xp: xp.concat([of(xp, "real"), of(xp, "small")], axis=1),
    "concat flat": lambda xp: xp.concat([of(xp, "real"), xp.asarray([1.0])], axis=None),
    "concat types": lambda xp: xp.concat([xp.asarray([1], dtype=xp.int8), xp.asarray([2], dtype=xp.int16)]),
    "stack": lambda xp: xp.stack([of(xp, "real"), of(xp, "small")], axis=-1),
    "unstack": lambda xp: xp.unstack(of(xp, "real"), axis=1),
    "expand_dims": lambda xp: xp.expand_dims(of(xp, "real"), axis=-1),
    "squeeze": lambda xp: xp.squeeze(xp.ones((1, 3, 1)), axis=(0, 2)),
    "flip": lambda xp: xp.flip(of(xp, "real"), axis=1),
    "moveaxis": lambda xp: xp.moveaxis(xp.reshape(xp.arange(24), (2, 3, 4)), (0, 1), (2, 0)),
    "permute_dims": lambda xp: xp.permute_dims(xp.reshape(xp.arange(24), (2, 3, 4)), (2, 0, 1)),
    "reshape": lambda xp: xp.reshape(of(xp, "real"), (3, -1)),
    "roll": lambda xp: xp.roll(of(xp, "real"), (1, 2), axis=(0, 1)),
    "roll flat": lambda xp: xp.roll(of(xp, "real"), 2),
    "repeat": lambda xp: xp.repeat(of(xp, "real"), 2, axis=0),
    "repeat each": lambda xp: xp.repeat(xp.asarray([1, 2]), xp.asarray([3, 1])),
    "tile": lambda xp: xp.tile(of(xp, "real"), (2, 1, 2)),
    "take": lambda xp: xp.take(of(xp, "real"), xp.asarray([2, 0]), axis=1),
    "argmax": lambda xp: xp.argmax(of(xp, "real"), axis=1, keepdims=True),
    "argmin": lambda xp: xp.argmin(of(xp, "real")),
    "nonzero": lambda xp: xp.nonzero(of(xp, "truths")),
    "searchsorted": lambda xp: xp.searchsorted(xp.asarray([1.0, 2.0, 3.0]), xp.asarray([0.5, 2.0, 9.0]), side="right"),
    "sort": lambda xp: xp.sort(of(xp, "real"), axis=0),
    "sort descending": lambda xp: xp.sort(of(xp, "integers"), descending=True),
    "argsort": lambda xp: xp.argsort(xp.asarray([3, 1, 3, 1])),
    "argsort descending": lambda xp: xp.argsort(xp.asarray([3, 1, 3, 1]), descending=True),
    "unique_all": lambda xp: xp.unique_all(xp.asarray([3, 1, 3])),
    "unique_counts": lambda xp: xp.unique_counts(xp.asarray([3, 1, 3])),
    "unique_inverse": lambda xp: xp.unique_inverse(xp.asarray([[3, 1], [3, 2]])),
    "unique_values": lambda xp: xp.unique_values(xp.asarray([3, 1, 3])),
    "cumulative_sum": lambda xp: xp.cumulative_sum(of(xp, "integers"), axis=1, include_initial=True),
    "sum small integers": lambda xp: xp.sum(xp.asarray([100, 100], dtype=xp.int8)),
    "sum dtype small": lambda xp: xp.sum(of(xp, "integers"), dtype=xp.int8),
    "vecdot small": lambda xp: xp.vecdot(xp.ones(3, dtype=xp.int8), xp.ones(3, dtype=xp.int8)),
    "norm of nothing": lambda xp: xp.linalg.vector_norm(xp.ones(0), ord=xp.inf),
    "sum dtype": lambda xp: xp.sum(of(xp, "integers"), axis=0, dtype=xp.float64),
    "prod": lambda xp: xp.prod(of(xp, "integers"), axis=(0, 1)),
    "std": lambda xp: xp.std(of(xp, "real"), axis=1, correction=1.0),
    "var": lambda xp: xp.var(of(xp, "real"), keepdims=True),
    "mean": lambda xp: xp.mean(xp.asarray([1.0, 2.0], dtype=xp.float32)),
    "max": lambda xp: xp.max(of(xp, "integers"), axis=0),
    "min": lambda xp: xp.min(of(xp, "real")),
    "all": lambda xp: xp.all(of(xp, "truths"), axis=0),
    "any": lambda xp: xp.any(of(xp, "integers")),
    "matmul": lambda xp: xp.matmul(of(xp, "real"), xp.matrix_transpose(of(xp, "small"))),
    "matmul integers": lambda xp: of(xp, "integers") @ of(xp, "integers").T,
    "tensordot": lambda xp: xp.tensordot(of(xp, "real"), of(xp, "small"), axes=((0,), (0,))),
    "tensordot all": lambda xp: xp.tensordot(of(xp, "real"), of(xp, "small")),
    "vecdot": lambda xp: xp.vecdot(of(xp, "complex"), of(xp, "complex")),
    "index": lambda xp: of(xp, "real")[1, ::-1],
    "mask": lambda xp: of(xp, "real")[of(xp, "truths")],
    "new axis": lambda xp: of(xp, "real")[..., xp.newaxis, 0],
    "operators": lambda xp: -(of(xp, "real") ** 2) / 3.0 + abs(of(xp, "small")) % 0.3 - 1.0,
    "integer operators": lambda xp: (~of(xp, "integers") << 2) // 3 ^ 5,
    "comparison": lambda xp: (of(xp, "real") > 0.0) & ~(of(xp, "small") == 0.0),
    "isdtype": lambda xp: [
        xp.isdtype(xp.float32, kind) for kind in ("real floating", "numeric", "integral", xp.float32)
    ],
    "result_type": lambda xp: [str(xp.result_type(xp.int8, xp.uint8, xp.asarray(1, dtype=xp.int16))).split(".")[-1]],
    "can_cast": lambda xp: [xp.can_cast(xp.int8, xp.int16), xp.can_cast(of(xp, "real"), xp.float32)],
    "finfo": lambda xp: [getattr(xp.finfo(xp.float32), n) for n in ("bits", "eps", "max", "min", "smallest_normal")],
    "iinfo": lambda xp: [getattr(xp.iinfo(xp.int16), n) for n in ("bits", "max", "min")],
    "info": lambda xp: [sorted(xp.__array_namespace_info__().dtypes(kind="integral"))],
    "constants": lambda xp: [xp.e, xp.pi, xp.inf],
}
MATRIX = [[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 5.0]]
LINALG: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cholesky": lambda xp, la, a: la.cholesky(a, upper=True),
    "cross": lambda xp, la, a: la.cross(a, xp.flip(a, axis=0)),
    "det": lambda xp, la, a: la.det(a),
    "diagonal": lambda xp, la, a: la.diagonal(a, offset=-1),
    "eigvalsh": lambda xp, la, a: la.eigvalsh(a),
    "eigh": lambda xp, la, a: la.eigh(a).eigenvectors ** 2,
    "inv": lambda xp, la, a: la.inv(a),
    "matrix_norm": lambda xp, la, a: [
        la.matrix_norm(a),
        la.matrix_norm(a, ord=2),
        la.matrix_norm(a, ord=1, keepdims=True),
    ],
    "matrix_power": lambda xp, la, a: [la.matrix_power(a, 3), la.matrix_power(a, 0), la.matrix_power(a, -2)],
    "matrix_rank": lambda xp, la, a: la.matrix_rank(a),
    "outer": lambda xp, la, a: la.outer(a[0, :], a[1, :]),
    "pinv": lambda xp, la, a: la.pinv(a[:, :2]),
    "qr": lambda xp, la, a: la.qr(a[:, :2], mode="complete"),
    "slogdet": lambda xp, la, a: la.slogdet(-a),
    "solve": lambda xp, la, a: [la.solve(a, a[0, :]), la.solve(a, a[:, :2])],
    "svd": lambda xp, la, a: la.svd(a[:, :2], full_matrices=False),
    "svdvals": lambda xp, la, a: la.svdvals(a),
    "trace": lambda xp, la, a: la.trace(a, offset=1),
    "vector_norm": lambda xp, la, a: [la.vector_norm(a, axis=0, ord=p) for p in (1, 2, 3, xp.inf, -xp.inf, 0)],
}
CALLS |= {f"linalg.{name}": of_matrix(f) for name, f in LINALG.items()}


def parts(result: Any) -> list[np.ndarray[Any, Any]]:
    several = isinstance(result, list | tuple)
    return [np.asarray(part) for part in result] if several else [np.asarray(result)]


@pytest.mark.parametrize("name", CALLS)
def test_results_equal_the_oracles(name: str) -> None:
    ours, theirs = parts(CALLS[name](dt)), parts(CALLS[name](strict))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
        if mine.dtype.kind in "fc":
            np.testing.assert_allclose(mine, other, rtol=1e-14, atol=1e-15)
        else:
            np.testing.assert_array_equal(mine, other)


def softmax_regression(xp: Any, x: Any, y: Any) -> Any:
    """Array API code that knows nothing of us: the mean cross-entropy of linear scores."""
    scores = x @ xp.reshape(xp.linspace(-1, 1, 6), (3, 2))
    scores = scores - xp.max(scores, axis=1, keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(scores), axis=1))
    return xp.mean(log_sum - xp.where(y, scores[:, 1], scores[:, 0]))


def test_array_api_code_runs_and_has_a_derivative() -> None:
    x, y = np.asarray(DATA["real"]), np.array([True, False])
    there = softmax_regression(strict, strict.asarray(x), strict.asarray(y))
    value, slope = dt.value_and_grad(lambda z: softmax_regression(z.__array_namespace__(), z, dt.asarray(y)))(x)
    assert float(value) == pytest.approx(float(there), rel=1e-14)
    assert (
        dt.check_gradients(
            lambda z: softmax_regression(dt, z if hasattr(z, "node") else dt.asarray(z), dt.asarray(y)), x
        ).error
        < 1e-6
    )
    assert slope.shape == x.shape


def test_memory_is_shared_with_other_libraries_by_dlpack() -> None:
    there = torch.arange(4.0)
    ours = dt.from_dlpack(there)
    there[0] = 9.0
    assert ours.tolist() == [9.0, 1.0, 2.0, 3.0]
    back = torch.utils.dlpack.from_dlpack(dt.arange(3.0))
    assert back.tolist() == [0.0, 1.0, 2.0]
    assert dt.arange(3.0).__dlpack_device__() == np.arange(3.0).__dlpack_device__()


def test_dlpack_answers_each_option_of_the_standard() -> None:
    x = dt.arange(3.0)
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 9.0
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert "versioned" in str(x.__dlpack__(max_version=(1, 0)))
    with pytest.raises(BufferError, match="device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="nosuch"):
        x.__dlpack__(nosuch=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("axis", [3, -4])
def test_a_new_axis_out_of_range_is_an_index_error(axis: int) -> None:
    with pytest.raises(IndexError, match=str(axis)):
        dt.expand_dims(dt.ones((2, 3)), axis=axis)


def test_reshape_without_a_copy_is_refused_where_one_is_needed() -> None:
    x = dt.reshape(dt.arange(6), (2, 3))
    assert dt.reshape(x, (3, 2), copy=False).storage is x.storage
    with pytest.raises(dt.ShapeError, match="needs a copy"):
        dt.reshape(x.T, (6,), copy=False)
    assert dt.reshape(x, (6,), copy=True).storage is not x.storage


def test_random_tensors_follow_their_generator() -> None:
    x = dt.uniform((1000,), -1.0, 3.0, generator=np.random.default_rng(0), dtype=np.float32)
    assert x.dtype == np.float32
    assert -1 <= float(x.min()) < -0.9
    assert 2.9 < float(x.max()) <= 3
    y, again = (dt.gaussian((1000,), 2.0, 0.5, generator=np.random.default_rng(1)) for _ in range(2))
    assert y.tolist() == again.tolist()
    assert float(y.mean()) == pytest.approx(2.0, abs=0.05)
    assert float(dt.std(y)) == pytest.approx(0.5, abs=0.05)
