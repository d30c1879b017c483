"""Initializations: torch's own values, the distributions they promise, and signals whose size is kept through depth."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from deepcanon.core import UsageError
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense
from deepcanon.nn.initialize import initialize


def drawn(text: str, module: nn.Module) -> Tensor:
    initialize(module, text, torch.Generator().manual_seed(3))
    assert isinstance(module.weight, Tensor)
    return module.weight.detach()


@pytest.mark.parametrize(
    ("text", "torchs", "options"),
    [
        ("xavier_normal:gain=tanh", nn.init.xavier_normal_, {"gain": 5 / 3}),
        ("xavier_uniform:gain=0.7", nn.init.xavier_uniform_, {"gain": 0.7}),
        ("kaiming_normal", nn.init.kaiming_normal_, {"nonlinearity": "relu"}),
        ("kaiming_uniform:mode=fan_out", nn.init.kaiming_uniform_, {"mode": "fan_out", "nonlinearity": "relu"}),
        ("fan_in", nn.init.kaiming_uniform_, {"a": math.sqrt(5)}),  # how torch writes its default
        ("normal:std=0.1", nn.init.normal_, {"std": 0.1}),
        ("uniform:bound=2", nn.init.uniform_, {"a": -2.0, "b": 2.0}),
    ],
)
def test_values_are_those_of_torch(text: str, torchs: Callable[..., Any], options: dict[str, Any]) -> None:
    expected = torch.empty(6, 4, 3, 3, dtype=torch.float64)
    torchs(expected, generator=torch.Generator().manual_seed(3), **options)
    torch.testing.assert_close(drawn(text, nn.Conv2d(4, 6, 3).double()), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("normal", stats.norm(0, 1)),
        ("uniform:bound=0.1", stats.uniform(-0.1, 0.2)),
        ("fan_in", stats.uniform(-0.1, 0.2)),
        ("xavier_normal", stats.norm(0, math.sqrt(2 / 140))),
        ("xavier_uniform", stats.uniform(-math.sqrt(6 / 140), 2 * math.sqrt(6 / 140))),
        ("kaiming_normal", stats.norm(0, math.sqrt(2 / 100))),
        ("kaiming_uniform:mode=fan_out,gain=1", stats.uniform(-math.sqrt(3 / 40), 2 * math.sqrt(3 / 40))),
    ],
)
def test_weights_have_the_distribution_of_the_formula(text: str, law: Any) -> None:
    weight = drawn(text, nn.Linear(100, 40).double())
    assert stats.kstest(weight.flatten().numpy(), law.cdf).pvalue > 0.01


def test_constants_and_signs() -> None:
    layer = nn.Linear(100, 40)
    assert drawn("zero", layer).eq(0).all()
    assert drawn("constant:value=0.25", layer).eq(0.25).all()
    signs = drawn("signs:value=0.1", layer)
    assert signs.abs().eq(0.1).all()
    assert stats.binomtest(int((signs > 0).sum()), signs.numel()).pvalue > 0.01
    assert layer.bias.eq(0).all()


def test_transposed_convolutions_count_their_inputs_first() -> None:
    """An output of a transposed convolution with stride 1 sums over all input channels and positions of the kernel."""
    weight = drawn("kaiming_normal:gain=1", nn.ConvTranspose1d(50, 2, 40).double())
    assert weight.var().item() == pytest.approx(1 / (50 * 40), rel=0.1)


def test_only_weights_and_their_biases_are_changed() -> None:
    norm, recurrent = nn.BatchNorm1d(4), nn.GRU(3, 4)
    nn.init.constant_(norm.weight, 3.0)
    initialize(nn.ModuleList([norm, recurrent]), "constant:value=2")
    assert norm.weight.eq(3).all()
    for name, value in recurrent.named_parameters():
        assert value.eq(0 if name.startswith("bias") else 2).all()
    normed = weight_norm(nn.Linear(4, 3))
    initialize(normed, "constant:value=2")
    torch.testing.assert_close(normed.weight, torch.full((3, 4), 2.0))


def test_the_global_generator_is_used_or_left_alone() -> None:
    torch.manual_seed(3)
    layer = nn.Linear(4, 4)
    before = torch.get_rng_state()
    given = drawn("normal", layer).clone()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(3)
    initialize(layer, "normal")
    assert torch.equal(layer.weight, given)


@pytest.mark.parametrize(
    ("text", "activation", "factor"),
    [
        ("kaiming_normal", "relu", 1.0),
        ("xavier_uniform", "identity", 1.0),
        ("xavier_normal", "relu", 1 / 2),
        ("fan_in", "relu", 1 / 6),
        ("signs:value=0.1", "identity", 0.64),
        ("normal:std=0.25", "relu", 2.0),
    ],
)
def test_signals_change_by_the_factor_of_the_formula_in_every_layer(
    text: str, activation: Activation, factor: float
) -> None:
    """E[z²] by layer, over many nets: exact at any width, since each layer's weights are symmetric and independent."""
    width, depth, nets = 64, 6, 50
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, width, dtype=torch.float64, generator=generator)
    v = torch.randn(1, width, dtype=torch.float64, generator=generator)
    net = dense(width, width, [width] * (depth - 1), activation=activation).double()
    sizes, slopes = [], []
    for _ in range(nets):
        initialize(net, text, generator)
        h, signals = x, []
        for layer in net:
            h = layer(h)
            if isinstance(layer, nn.Linear):
                signals.append(h)
        sizes.append([signal.square().mean().item() for signal in signals])
        gradients = torch.autograd.grad(h, signals, v)
        slopes.append([gradient.square().mean().item() for gradient in gradients])
    measured, returned = torch.tensor(sizes).double(), torch.tensor(slopes).double()
    first = factor * (2 if activation == "relu" else 1) * x.square().mean()  # the input is not rectified
    _agrees(measured, first * factor ** torch.arange(depth))
    _agrees(returned, v.square().mean() * factor ** torch.arange(depth - 1, -1, -1))


def _agrees(measured: Tensor, expected: Tensor) -> None:
    """The means are within four standard errors, and these are small."""
    error = measured.std(0) / math.sqrt(len(measured)) + 1e-12
    assert (error < 0.15 * expected + 1e-9).all()
    assert ((measured.mean(0) - expected).abs() < 4 * error).all()


def test_mistakes_are_refused_with_what_to_do() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(UsageError, match="no initialization 'kaiming_norm'; did you mean kaiming_normal"):
        initialize(layer, "kaiming_norm")
    with pytest.raises(UsageError, match="the initialization zero has no option 'gain'; it has none"):
        initialize(layer, "zero:gain=2")
    with pytest.raises(UsageError, match="'xavier_normal:gain=cube' was refused: Unsupported nonlinearity cube"):
        initialize(layer, "xavier_normal:gain=cube")
    with pytest.raises(UsageError, match="mode must be one of fan_in, fan_out"):
        initialize(layer, "kaiming_normal:mode=in")
    with pytest.raises(UsageError, match="ReLU has no weights to initialize"):
        initialize(nn.ReLU(), "zero")
