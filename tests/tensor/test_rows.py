"""Every row of the table: its value against NumPy, its first and second derivative against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import deepcanon.tensor as dt
from deepcanon.tensor import Tensor, elementwise, movement, networks, products, reductions
from deepcanon.tensor.autodiff import gradients
from deepcanon.tensor.operation import NUMPY, Operation

Array = np.ndarray[Any, Any]
BOUND = 1e-10


class Case(NamedTuple):
    """The same function of ours, of NumPy (None: torch's value is compared) and of torch, and where to ask for it."""

    ours: Callable[..., Any]
    numpy: Callable[..., Any] | None
    torch: Callable[..., Any]
    args: tuple[Array, ...]


def draw(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def positive_definite(n: int) -> Array:
    a = draw(2, n, n)
    return a @ a.transpose(0, 2, 1) + n * np.eye(n)


def same(f: Callable[..., Any], g: Callable[..., Any], *args: Array) -> Case:
    """A function of NumPy's, which takes tensors too, and its torch counterpart."""
    return Case(f, f, g, args)


A, B, ROW = draw(3, 4), draw(3, 4, seed=1), draw(4, seed=2)
UP = draw(3, 4, low=0.5)
SMALL = draw(3, 4, low=-0.9, high=0.9)
CUBE = draw(2, 3, 4)
MATRICES = draw(2, 3, 3) + 3 * np.eye(3)
LABELS = np.array([0, 3, 1])
IMAGES, KERNELS = draw(2, 3, 7, 6), draw(4, 3, 3, 2)

CASES: dict[str, Case] = {
    "add": same(np.add, torch.add, A, ROW),
    "subtract": same(np.subtract, torch.subtract, A, ROW),
    "multiply": same(np.multiply, torch.multiply, A, ROW),
    "divide": same(np.divide, torch.divide, ROW, UP),
    "power": same(np.power, torch.pow, UP, ROW),
    "power scalar": same(lambda x: x**3, lambda x: x**3, A),
    "power zero": same(lambda x: x**0 + x**1, lambda x: x**0 + x**1, A),
    "scalar power": same(lambda x: 2.0**x, lambda x: 2.0**x, A),
    "remainder": same(np.remainder, torch.remainder, A * 5, UP),
    "negative": same(np.negative, torch.negative, A),
    "positive": same(np.positive, torch.positive, A),
    "reciprocal": same(np.reciprocal, torch.reciprocal, UP),
    "square": same(np.square, torch.square, A),
    "sqrt": same(np.sqrt, torch.sqrt, UP),
    "abs": same(np.absolute, torch.abs, A),
    "exp": same(np.exp, torch.exp, A),
    "expm1": same(np.expm1, torch.expm1, A),
    "log": same(np.log, torch.log, UP),
    "log1p": same(np.log1p, torch.log1p, UP),
    "log2": same(np.log2, torch.log2, UP),
    "log10": same(np.log10, torch.log10, UP),
    "logaddexp": same(np.logaddexp, torch.logaddexp, A, B),
    "sin": same(np.sin, torch.sin, A),
    "cos": same(np.cos, torch.cos, A),
    "tan": same(np.tan, torch.tan, SMALL),
    "arcsin": same(np.arcsin, torch.asin, SMALL),
    "arccos": same(np.arccos, torch.acos, SMALL),
    "arctan": same(np.arctan, torch.atan, A),
    "arctan2": same(np.arctan2, torch.atan2, A, B),
    "hypot": same(np.hypot, torch.hypot, A, B),
    "sinh": same(np.sinh, torch.sinh, A),
    "cosh": same(np.cosh, torch.cosh, A),
    "tanh": same(np.tanh, torch.tanh, A),
    "arcsinh": same(np.arcsinh, torch.asinh, A),
    "arccosh": same(np.arccosh, torch.acosh, UP + 1),
    "arctanh": same(np.arctanh, torch.atanh, SMALL),
    "maximum": same(np.maximum, torch.maximum, A, B),
    "minimum": same(np.minimum, torch.minimum, A, ROW + 0.1),
    "copysign": same(np.copysign, torch.copysign, A, B),
    "where": same(
        lambda a, b: np.where(draw(3, 4) > 0, a, b),
        lambda a, b: torch.where(torch.tensor(draw(3, 4) > 0), a, b),
        A,
        ROW,
    ),
    "clip": Case(lambda x: dt.clip(x, -1, 1), lambda x: np.clip(x, -1, 1), lambda x: x.clamp(-1, 1), (A,)),
    "clip one side": Case(lambda x: dt.clip(x, max=1), lambda x: np.clip(x, None, 1), lambda x: x.clamp(max=1), (A,)),
    "sigmoid": Case(dt.sigmoid, lambda x: 1 / (1 + np.exp(-x)), torch.sigmoid, (A,)),
    "relu": Case(dt.relu, lambda x: np.maximum(x, 0), torch.relu, (A,)),
    "softplus": Case(dt.softplus, None, lambda x: F.softplus(x, threshold=100), (A,)),
    "erf": Case(dt.erf, None, torch.erf, (A * 3,)),
    "gelu": Case(dt.gelu, None, F.gelu, (A,)),
    "silu": Case(dt.silu, None, F.silu, (A,)),
    "sum": same(np.sum, torch.sum, A),
    "sum axis": same(lambda x: np.sum(x, axis=1), lambda x: x.sum(1), CUBE),
    "sum axes": same(lambda x: np.sum(x, axis=(0, -1), keepdims=True), lambda x: x.sum((0, -1), keepdim=True), CUBE),
    "mean": same(lambda x: np.mean(x, axis=-1), lambda x: x.mean(-1), CUBE),
    "prod": same(lambda x: np.prod(x, axis=1), lambda x: x.prod(1), CUBE),
    "prod with a zero": same(lambda x: np.prod(x, axis=0), lambda x: x.prod(0), np.array([0.0, 2.0, 3.0])),
    "max": same(lambda x: np.max(x, axis=1), lambda x: x.amax(1), CUBE),
    "max of equals": same(np.max, torch.amax, np.array([1.0, 3.0, 3.0])),
    "min": same(lambda x: np.min(x, axis=(0, 2)), lambda x: x.amin((0, 2)), CUBE),
    "var": Case(
        lambda x: dt.var(x, axis=1, correction=1), lambda x: np.var(x, axis=1, ddof=1), lambda x: x.var(1), (CUBE,)
    ),
    "std": Case(lambda x: dt.std(x, axis=1), lambda x: np.std(x, axis=1), lambda x: x.std(1, correction=0), (CUBE,)),
    "norm": Case(lambda x: dt.norm(x, axis=1), lambda x: np.linalg.norm(x, axis=1), lambda x: x.norm(dim=1), (CUBE,)),
    "logsumexp": Case(lambda x: dt.logsumexp(x, axis=1), None, lambda x: x.logsumexp(1), (CUBE,)),
    "cumsum": same(lambda x: np.cumsum(x, axis=1), lambda x: x.cumsum(1), CUBE),
    "sort": same(lambda x: np.sort(x, axis=1), lambda x: x.sort(1).values, CUBE),
    "matmul": same(np.matmul, torch.matmul, A, draw(4, 5)),
    "matmul batched": same(np.matmul, torch.matmul, CUBE, draw(4, 5)),
    "matmul broadcast": same(np.matmul, torch.matmul, draw(5, 1, 3, 4), draw(2, 4, 2)),
    "matmul vectors": same(np.matmul, torch.matmul, ROW, draw(4)),
    "matmul vector left": same(np.matmul, torch.matmul, draw(3), CUBE),
    "matmul vector right": same(np.matmul, torch.matmul, CUBE, ROW),
    "einsum": same(
        lambda a, b: np.einsum("bij,jk->bik", a, b), lambda a, b: torch.einsum("bij,jk->bik", a, b), CUBE, draw(4, 2)
    ),
    "einsum diagonal": same(lambda a: np.einsum("bii->b", a), lambda a: torch.einsum("bii->b", a), MATRICES),
    "einsum ellipsis": same(
        lambda a, b: np.einsum("...i,ji->...j", a, b),
        lambda a, b: torch.einsum("...i,ji->...j", a, b),
        CUBE,
        draw(2, 4),
    ),
    "einsum lone letter": same(
        lambda a, b: np.einsum("ij,k->i", a, b), lambda a, b: torch.einsum("ij,k->i", a, b), A, draw(2)
    ),
    "inv": same(np.linalg.inv, torch.linalg.inv, MATRICES),
    "det": same(np.linalg.det, torch.linalg.det, MATRICES),
    "logabsdet": Case(
        lambda a: dt.linalg.slogdet(a).logabsdet,
        lambda a: np.linalg.slogdet(a)[1],
        lambda a: torch.linalg.slogdet(a)[1],
        (MATRICES,),
    ),
    "solve": same(np.linalg.solve, torch.linalg.solve, MATRICES, draw(2, 3, 2)),
    "solve vector": same(np.linalg.solve, torch.linalg.solve, MATRICES[0], draw(3)),
    "cholesky": same(np.linalg.cholesky, torch.linalg.cholesky, positive_definite(3)),
    "eigenvalues": Case(
        lambda a: dt.linalg.eigvalsh(a + a.mT),
        lambda a: np.linalg.eigvalsh(a + a.mT),
        lambda a: torch.linalg.eigvalsh(a + a.mT),
        (MATRICES,),
    ),
    "eigenvectors": Case(
        lambda a: dt.linalg.eigh(a + a.mT)[1] ** 2,
        lambda a: np.linalg.eigh(a + a.mT)[1] ** 2,
        lambda a: torch.linalg.eigh(a + a.mT)[1] ** 2,
        (MATRICES,),
    ),
    "reshape": same(lambda x: x.reshape(4, 3), lambda x: x.reshape(4, 3), A),
    "transpose": same(lambda x: np.transpose(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1), CUBE),
    "broadcast_to": same(lambda x: np.broadcast_to(x, (3, 4)), lambda x: x.expand(3, 4), ROW),
    "roll": Case(lambda x: dt.roll(x, 2, axis=1), lambda x: np.roll(x, 2, 1), lambda x: x.roll(2, 1), (A,)),
    "astype": Case(lambda x: x.astype(np.float32).astype(np.float64), None, lambda x: x.float().double(), (A,)),
    "concat": same(lambda a, b: np.concatenate([a, b], axis=1), lambda a, b: torch.cat([a, b], 1), A, B),
    "stack": same(lambda a, b: np.stack([a, b], axis=1), lambda a, b: torch.stack([a, b], 1), A, B),
    "split": same(lambda x: np.split(x, 2, axis=1)[1], lambda x: x.split(2, 1)[1], A),
    "flip": same(lambda x: np.flip(x, 1), lambda x: x.flip(1), A),
    "slice": same(lambda x: x[:, 1::2, None], lambda x: x[:, 1::2, None], CUBE),
    "slice backwards": same(lambda x: x[::-1, 0], lambda x: x.flip(0)[:, 0], CUBE),
    "index twice": same(lambda x: x[[0, 2, 0]], lambda x: x[[0, 2, 0]], A),
    "mask": same(lambda x: x[draw(3, 4) > 0], lambda x: x[torch.tensor(draw(3, 4) > 0)], A),
    "set_at": Case(
        lambda x, v: dt.set_at(x, (slice(None), 1), v),
        None,
        lambda x, v: torch.cat([x[:, :1], v[:, None], x[:, 2:]], 1),
        (A, draw(3)),
    ),
    "take": same(lambda x: np.take(x, [1, 1, 0], axis=1), lambda x: x[:, [1, 1, 0]], CUBE),
    "take_along_axis": Case(
        lambda x: dt.take_along_axis(x, LABELS[:, None], 1),
        lambda x: np.take_along_axis(x, LABELS[:, None], 1),
        lambda x: x.gather(1, torch.tensor(LABELS[:, None])),
        (A,),
    ),
    "repeat": same(lambda x: np.repeat(x, 2, axis=1), lambda x: x.repeat_interleave(2, 1), A),
    "tile": Case(lambda x: dt.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), lambda x: x.repeat(2, 1, 3), (A,)),
    "pad": Case(
        lambda x: dt.pad(x, [(0, 0), (1, 2)]), lambda x: np.pad(x, [(0, 0), (1, 2)]), lambda x: F.pad(x, (1, 2)), (A,)
    ),
    "tril": Case(lambda x: dt.tril(x, k=-1), lambda x: np.tril(x, -1), lambda x: x.tril(-1), (CUBE,)),
    "diagonal": Case(
        lambda x: dt.linalg.diagonal(x, offset=1),
        lambda x: np.diagonal(x, 1, -2, -1),
        lambda x: x.diagonal(1, -2, -1),
        (CUBE,),
    ),
    "np.clip": same(lambda x: np.clip(x, -1, 1), lambda x: x.clamp(-1, 1), A),
    "np.roll": same(lambda x: np.roll(x, 3), lambda x: x.roll(3), A),
    "np.tile": same(lambda x: np.tile(x, 2), lambda x: x.tile(2), A),
    "np.moveaxis": same(lambda x: np.moveaxis(x, 0, -1), lambda x: x.movedim(0, -1), CUBE),
    "np.ravel": same(np.ravel, torch.ravel, CUBE),
    "np.tril": same(np.tril, torch.tril, A),
    "np.triu": same(lambda x: np.triu(x, 1), lambda x: x.triu(1), A),
    "np.trace": same(np.trace, torch.trace, A),
    "np.tensordot": same(np.tensordot, torch.tensordot, CUBE, draw(3, 4)),
    "np.outer": same(np.outer, torch.outer, ROW, draw(2)),
    "np.linalg.norm": same(np.linalg.norm, torch.linalg.norm, A),
    "linear": Case(dt.linear, lambda x, w, b: x @ w.T + b, F.linear, (CUBE, draw(5, 4), draw(5))),
    "softmax": Case(lambda x: dt.softmax(x, axis=1), None, lambda x: x.softmax(1), (CUBE,)),
    "log_softmax": Case(dt.log_softmax, None, lambda x: x.log_softmax(-1), (CUBE,)),
    "cross_entropy": Case(
        lambda x: dt.cross_entropy(x, LABELS), None, lambda x: F.cross_entropy(x, torch.tensor(LABELS)), (A,)
    ),
    "binary_cross_entropy": Case(
        dt.binary_cross_entropy, None, F.binary_cross_entropy_with_logits, (A, draw(3, 4, low=0.1, high=0.9))
    ),
    "mean_squared_error": Case(dt.mean_squared_error, None, F.mse_loss, (A, B)),
    "layer_norm": Case(dt.layer_norm, None, lambda x, w, b: F.layer_norm(x, (4,), w, b), (CUBE, ROW, draw(4))),
    "embedding": Case(
        lambda w: dt.embedding(w, LABELS[:, None] % 3),
        None,
        lambda w: F.embedding(torch.tensor(LABELS[:, None] % 3), w),
        (A,),
    ),
    "conv2d": Case(
        lambda x, w, b: dt.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        None,
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        (IMAGES, KERNELS, draw(4)),
    ),
    "conv1d": Case(
        lambda x, w: dt.conv1d(x, w, stride=2, padding=1),
        None,
        lambda x, w: F.conv1d(x, w, stride=2, padding=1),
        (CUBE, draw(5, 3, 3)),
    ),
    "max_pool2d": Case(lambda x: dt.max_pool2d(x, 3, 2), None, lambda x: F.max_pool2d(x, 3, 2), (IMAGES,)),
    "avg_pool2d": Case(lambda x: dt.avg_pool2d(x, (2, 3), 1), None, lambda x: F.avg_pool2d(x, (2, 3), 1), (IMAGES,)),
}
CASES |= {"windows": CASES["avg_pool2d"]}


def differentiate(f: Callable[..., Any], args: tuple[Array, ...]) -> tuple[Any, list[Any], list[Any]]:
    """Our value, the derivative of its weighed sum, and the derivative of that one's weighed sum."""
    xs = [dt.tensor(a, requires_grad=True) for a in args]
    y = f(*xs)
    first = gradients(y, xs, weights(y.shape), record=True)
    total = sum((d * weights(d.shape, 1)).sum() for d in first)
    return (
        y,
        first,
        gradients(total, xs) if isinstance(total, Tensor) and total.requires_grad else [dt.zeros_like(x) for x in xs],
    )


def differentiate_torch(f: Callable[..., Any], args: tuple[Array, ...]) -> tuple[Any, list[Any], list[Any]]:
    xs = [torch.tensor(a, requires_grad=True) for a in args]
    y = f(*xs)
    first = list(torch.autograd.grad(y, xs, torch.tensor(weights(tuple(y.shape))), create_graph=True))
    total = sum((d * torch.tensor(weights(tuple(d.shape), 1))).sum() for d in first)
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        return y, first, [torch.zeros_like(x) for x in xs]
    second = torch.autograd.grad(total, xs, allow_unused=True, materialize_grads=True)
    return y, first, list(second)


def weights(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng([7, seed, *shape]).uniform(0.5, 1.5, shape))


def assert_close(ours: Tensor, theirs: Any) -> None:
    a = ours.numpy()
    b = theirs.detach().numpy(force=True) if isinstance(theirs, torch.Tensor) else np.asarray(theirs)
    assert a.shape == b.shape
    assert np.max(np.abs(a - b) / np.maximum(1, np.abs(b)), initial=0) <= BOUND


@pytest.mark.parametrize("name", CASES)
def test_value_and_both_derivatives(name: str) -> None:
    case = CASES[name]
    y, first, second = differentiate(case.ours, case.args)
    there = differentiate_torch(case.torch, case.args)
    assert_close(y, there[0])
    if case.numpy is not None:
        assert_close(y, case.numpy(*case.args))
    for mine, theirs in zip([*first, *second], [*there[1], *there[2]], strict=True):
        assert_close(mine, theirs)


@pytest.mark.parametrize("name", CASES)
def test_float32_stays_float32(name: str) -> None:
    case = CASES[name]
    xs = [dt.tensor(a, np.float32, requires_grad=True) for a in case.args]
    y = case.ours(*xs)
    if name != "astype":
        assert y.dtype == np.float32
    assert all(d.dtype == np.float32 for d in gradients(y, xs, np.ones(y.shape)))


@pytest.mark.parametrize("name", CASES)
def test_strided_inputs(name: str) -> None:
    """Every second element of a larger array, backwards and transposed: the same results as from a fresh array."""
    case = CASES[name]
    xs = []
    for a in case.args:
        wide = np.zeros(tuple(2 * n for n in a.shape[::-1]))
        view = wide.T[(slice(None, None, -2),) * a.ndim]
        view[...] = a
        xs.append(dt.asarray(view))
    _, slopes = dt.value_and_grad(lambda *zs: case.ours(*zs).sum(), tuple(range(len(xs))))(*xs)
    _, wanted = dt.value_and_grad(lambda *zs: case.ours(*zs).sum(), tuple(range(len(xs))))(*case.args)
    for mine, theirs in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-12)


ELEMENTWISE = [
    name
    for name in CASES
    if isinstance(getattr(elementwise, name, None), Operation)
    and name != "where"  # whose condition has a fixed shape here
]


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_arrays_without_axes_and_without_elements(name: str, shape: tuple[int, ...]) -> None:
    case = CASES[name]
    args = tuple(np.full(shape, a.flat[0]) for a in case.args)
    y, first, second = differentiate(case.ours, args)
    there = differentiate_torch(case.torch, args)
    for mine, theirs in zip([y, *first, *second], [there[0], *there[1], *there[2]], strict=True):
        assert_close(mine, theirs)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "norm"])
def test_reductions_of_a_number(name: str) -> None:
    y = getattr(dt, name)(dt.tensor(2.0, requires_grad=True))
    assert y.shape == ()
    assert y.item() == {"var": 0.0}.get(name, 2.0)


def test_every_row_is_tried() -> None:
    """What the cases reach, by the names of the operations that they record, is the whole table."""
    seen = set()
    for case in CASES.values():
        y = case.ours(*(dt.tensor(a, requires_grad=True) for a in case.args))
        seen |= {node.op.name for node in dt.trace(y, np.ones(y.shape)).nodes if node.op}
    first_only = {"fold", "conv2d_input", "conv2d_kernel", "add_at"}  # the derivatives of other rows, tried with them
    rows = {
        value.name
        for module in (elementwise, movement, reductions, products, networks)
        for value in vars(module).values()
        if isinstance(value, Operation) and value.differentiable
    }
    assert rows - seen - first_only == set()


@pytest.mark.parametrize("name", sorted(elementwise.steps))
def test_steps_equal_numpy_and_are_not_recorded(name: str) -> None:
    ufunc = getattr(np, name)
    kinds = [(np.float64, 2.5), (np.int64, 3), (np.bool_, True)]
    kind, value = next(
        (k, v)
        for k, v in kinds
        if f"{'?l'[k is np.int64] if k is not np.float64 else 'd'}" in "".join(t[0] for t in ufunc.types)
    )
    args: list[Any] = [np.full(3, value, kind)] * ufunc.nin
    out = ufunc(*(dt.asarray(a) for a in args))
    np.testing.assert_array_equal(out.numpy(), ufunc(*args))
    if kind is np.float64:
        assert not ufunc(*(dt.tensor(a, requires_grad=True) for a in args)).requires_grad


def test_like_and_round() -> None:
    x = dt.tensor([1.4, 2.6], np.float32)
    assert np.zeros_like(x).tolist() == [0.0, 0.0]
    assert str(np.ones_like(x).dtype) == "float32"
    assert np.round(x).tolist() == [1.0, 3.0]


def test_numpy_functions_that_are_implemented_are_numpys() -> None:
    assert np.sin in NUMPY
    assert all(isinstance(f, np.ufunc) or f.__module__.startswith("numpy") for f in NUMPY)


def test_a_function_that_is_not_implemented_says_so() -> None:
    with pytest.raises(TypeError, match=r"np\.rot90 is not in the table"):
        np.rot90(dt.zeros((2, 2)))
    with pytest.raises(TypeError, match=r"np.add.reduce is not in the table.*x.numpy\(\)"):
        np.add.reduce(dt.zeros(3))


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [
        (dt.relu, 0.0, 0.0),
        (np.abs, 0.0, 0.0),
        (dt.norm, [0.0, 0.0], [0.0, 0.0]),
        (dt.std, [2.0, 2.0], [0.0, 0.0]),
        (np.max, [1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),
        (lambda x: np.maximum(x, 1.0), 1.0, 0.5),
        (lambda x: dt.clip(x, 0, 1), [0.0, 1.0], [1.0, 1.0]),
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: dt.max_pool2d(x.reshape(1, 1, 2, 2), 2), [3.0, 3.0, 0.0, 3.0], [1.0, 0.0, 0.0, 0.0]),
        (lambda x: np.hypot(x, 0.0), 0.0, 0.0),
    ],
)
def test_the_derivatives_chosen_at_corners(f: Callable[..., Any], x: Any, slope: Any) -> None:
    np.testing.assert_array_equal(dt.grad(lambda z: f(z).sum())(np.asarray(x)).numpy(), slope)


def test_erf_has_full_accuracy_near_zero_and_in_the_tail() -> None:
    from scipy import special

    x = np.concatenate([np.geomspace(1e-300, 7, 2000), [0.0, 30.0, np.inf]])
    x = np.concatenate([x, -x])
    np.testing.assert_allclose(dt.erf(x), special.erf(x), rtol=2e-15)
    assert dt.erf(x.astype(np.float32)).dtype == np.float32
