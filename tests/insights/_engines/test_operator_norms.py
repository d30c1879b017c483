"""Constants of single operations: norms of dense matrices, and slopes of activations on a fine grid."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.autograd.functional import jacobian

from deepcanon.core import Batch
from deepcanon.insights._engines.operator_norms import operator_norm
from deepcanon.insights.lipschitz import Bound, bound


def looked_at(module: nn.Module, *shape: int) -> Bound:
    return bound(module, Batch(torch.randn(1, *shape, generator=Generator().manual_seed(0))))


def dense_norm(module: nn.Module, *shape: int) -> float:
    """The largest singular value of the whole map, as one matrix."""
    module = module.double().eval()
    matrix = jacobian(lambda x: module(x.view(1, *shape)).flatten(), torch.zeros(math.prod(shape)).double())
    return float(torch.linalg.matrix_norm(matrix, 2))


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        pytest.param(nn.Linear(5, 4), (5,), id="linear"),
        pytest.param(nn.Conv2d(2, 3, 3, padding=1), (2, 6, 5), id="padded convolution"),
        pytest.param(nn.Conv2d(2, 4, 3, stride=2, dilation=2, groups=2), (2, 8, 8), id="strided and dilated"),
        pytest.param(nn.ConvTranspose2d(2, 1, 3, stride=2), (2, 4, 4), id="transposed convolution"),
        pytest.param(nn.Conv1d(2, 3, 4), (2, 9), id="one dimension"),
        pytest.param(nn.AvgPool2d(3, 2), (1, 7, 7), id="average pooling"),
        pytest.param(nn.AdaptiveAvgPool2d(1), (2, 4, 4), id="global average"),
        pytest.param(nn.Upsample(scale_factor=2, mode="bilinear"), (1, 4, 4), id="bilinear"),
        pytest.param(nn.ZeroPad2d(1), (1, 3, 3), id="padding"),
        pytest.param(nn.BatchNorm2d(4), (4, 3, 3), id="batch norm"),
    ],
)
def test_linear_operators_have_the_norm_of_their_matrix(module: nn.Module, shape: tuple[int, ...]) -> None:
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=Generator().manual_seed(1)) - 0.3).abs_()
    found = looked_at(module, *shape)
    assert found.value == pytest.approx(dense_norm(module, *shape), rel=1e-6)


class Wide(nn.Module):
    """The sharper softmax of many classes, of which the logarithm is taken."""

    def forward(self, x: Tensor) -> Tensor:
        return x.log_softmax(-1)


@pytest.mark.parametrize(
    "module",
    [
        nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.2), nn.LeakyReLU(3.0), nn.ELU(0.5), nn.ELU(2.5), nn.SELU(), nn.CELU(0.7),
        nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Tanh(), nn.Sigmoid(), nn.Softplus(3.0), nn.Hardtanh(),
        nn.Hardswish(), nn.Hardsigmoid(), nn.LogSigmoid(), nn.PReLU(), nn.Softshrink(),
    ],
    ids=str,
)  # fmt: skip
def test_activations_have_the_lipschitz_constant_of_their_steepest_point(module: nn.Module) -> None:
    x = torch.linspace(-12, 12, 240_001, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(module.double()(x).sum(), x)
    steepest = float(slope.abs().max())
    value = looked_at(module, 3).value
    assert value is not None
    assert steepest <= value * (1 + 1e-7)
    assert value == pytest.approx(steepest, rel=2e-4)


@pytest.mark.parametrize("module", [nn.Softmax(-1), Wide()], ids=["softmax", "log softmax"])
def test_shares_are_no_steeper_than_their_bound(module: nn.Module) -> None:
    """The bounds are reached in the limit: of softmax between two equal classes, of its logarithm in a corner."""
    corner = torch.tensor([40.0, 40.0 if isinstance(module, nn.Softmax) else 0.0, 0.0, 0.0], dtype=torch.float64)
    value = looked_at(module, 4).value
    assert value is not None
    worst = float(torch.linalg.matrix_norm(jacobian(module, corner), 2))
    assert worst == pytest.approx(value, rel=1e-9)
    anywhere = 3 * torch.randn(50, 4, generator=Generator().manual_seed(0), dtype=torch.float64)
    assert all(float(torch.linalg.matrix_norm(jacobian(module, x), 2)) <= value for x in anywhere)


@pytest.mark.parametrize(
    ("module", "windows"),
    [
        (nn.MaxPool2d(2), 1),
        (nn.MaxPool2d(3, 2), 4),
        (nn.MaxPool2d(3, 1, 1), 9),
        (nn.MaxPool1d(2, 1), 2),
        (nn.MaxPool2d((2, 3), (2, 1)), 3),
    ],
    ids=lambda value: str(value),
)
def test_a_number_that_wins_every_window_is_stretched_most(module: nn.Module, windows: int) -> None:
    shape = (1, 9) if isinstance(module, nn.MaxPool1d) else (1, 9, 9)
    spike = torch.zeros(1, *shape)
    spike[..., 4] = 0 if len(shape) == 3 else 1
    if len(shape) == 3:
        spike[..., 4, 4] = 1
    value = looked_at(module, *shape).value
    assert value == pytest.approx(math.sqrt(windows))
    assert float(module(spike).norm()) <= math.sqrt(windows) + 1e-6
    wins = max(float(module(torch.roll(spike, k, -1)).sum()) for k in range(-2, 3))
    assert wins <= windows


def test_layer_norm_is_steepest_where_nothing_varies() -> None:
    module = nn.LayerNorm(6, eps=1e-2)
    nn.init.constant_(module.weight, 2.0)
    value = looked_at(module, 6).value
    eval_mode = torch.linalg.matrix_norm(jacobian(module.double(), torch.zeros(6).double()), 2)
    assert value == pytest.approx(float(eval_mode)) == pytest.approx(20.0)


def test_an_operator_is_known_by_its_products() -> None:
    matrix = torch.randn(30, 20, generator=Generator().manual_seed(0), dtype=torch.float64)
    norm = operator_norm(lambda v: matrix @ v, lambda u: matrix.T @ u, 20)
    assert norm == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-9)


class Between(nn.Module):
    """Something done to the input and a layer of it."""

    def __init__(self, how: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.how(x, self.layer(x))
        return result


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (torch.add, lambda norm: 1 + norm),
        (lambda x, y: x - 3 * y, lambda norm: 1 + 3 * norm),
        (lambda x, y: torch.cat([x, y], -1), lambda norm: math.hypot(1, norm)),
        (torch.maximum, lambda norm: math.hypot(1, norm)),
        (lambda x, y: (x + y) / 2, lambda norm: (1 + norm) / 2),
        (torch.mul, lambda norm: None),
        (lambda x, y: x @ y.T, lambda norm: None),
        (lambda x, y: y.exp(), lambda norm: None),
    ],
    ids=["add", "subtract", "cat", "maximum", "mean", "product", "inner product", "exp"],
)
def test_paths_that_meet_are_added(how: Any, expected: Any) -> None:
    module = Between(how)
    norm = float(torch.linalg.matrix_norm(module.layer.weight.detach().double(), 2))
    found = looked_at(module, 3)
    assert found.value == (None if expected(norm) is None else pytest.approx(expected(norm)))
    assert bool(found.unbounded) == (found.value is None)
