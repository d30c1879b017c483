"""Shattered gradients: the gradients of neighboring inputs are uncorrelated in deep plain networks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn
from torch.nn.utils import skip_init

from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.nn.connections import Residual
from deepcanon.nn.initialize import initialize
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval

KINDS = ("plain", "residual", "small residual")


def shattered_gradients(
    *,
    depths: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 50),
    width: int = 128,
    nets: int = 12,
    points: int = 256,
    lag: float = 0.2,
    seed: int = 0,
) -> Finding:
    r"""The correlation of the gradients of neighboring inputs, in plain and residual networks of growing depth.

    Inputs move on a circle, and :math:`\rho` is the correlation of the input gradients of two of them at the
    angle :math:`\theta_0`. In wide ReLU networks with Kaiming initialization, angles change from layer to layer as

    .. math:: \cos\theta_{l+1} = \kappa(\theta_l) = \frac{\sin\theta_l + (\pi - \theta_l) \cos\theta_l}{\pi},
        \qquad \rho = \prod_{l=0}^{L-1} \left(1 - \frac{\theta_l}{\pi}\right)

    so that gradients become white noise with depth. With skip connections, :math:`h + \beta f(h)`,

    .. math:: \cos\theta_{l+1} = \frac{\cos\theta_l + \beta^2 \kappa(\theta_l)}{1 + \beta^2}, \qquad
        \rho = \prod_{l=0}^{L-1} \frac{1 + \beta^2 (1 - \theta_l / \pi)}{1 + \beta^2}

    which at :math:`\beta = 1` falls much more slowly, and at :math:`\beta = 1 / \sqrt{L}` not to zero at any depth.

    References:
        | The shattered gradients problem: if resnets are the answer, then what is the question? (Balduzzi et al.,
          2017), https://arxiv.org/abs/1702.08591
        | Kernel methods for deep learning (Cho and Saul, 2009; the angles),
          https://papers.nips.cc/paper/2009/hash/5751ec3e9a4feab575962e78e006250d-Abstract.html

    Arguments:
        depths: The numbers of layers.
        width: The units of a layer.
        nets: How many networks the correlation is averaged over.
        points: How many inputs there are around the circle.
        lag: The angle between two neighbors in radians, rounded to a whole number of steps.
        seed: The seed of the random numbers.
    """
    at_least(1, width=width, depths=min(depths, default=0))
    at_least(2, nets=nets)
    at_least(4, points=points)
    step = 2 * math.pi / points
    shift = max(1, round(lag / step))
    generator = Generator().manual_seed(seed)
    results: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        measured, errors, theory = [], [], []
        for depth in depths:
            beta = _beta(kind, depth)
            curves = torch.stack(
                [gradients(_network(depth, width, beta, generator), points, generator) for _ in range(nets)]
            )
            by_lag = correlation(curves)
            measured.append(by_lag[shift].item())
            errors.append(_error(curves, shift))
            theory.append(theoretical(shift * step, depth, beta))
        shown = curves[0].sum(1)  # along a direction that all inputs share; those of a single one are often zero
        results[kind] = {
            "measured": measured,
            "errors": errors,
            "theory": theory,
            "deepest_by_lag": by_lag[: points // 2 + 1].tolist(),
            "deepest_gradient": (shown / shown.std()).tolist(),
        }
    settings = (
        f"Layers of {counted(width, 'unit')}, inputs {shift * step:.3g} rad apart (lag {lag:g}) of {points} around a "
        f"circle, depths {depths[0]} to {depths[-1]}; {counted(nets, 'network')} with Kaiming initialization, "
        f"{CERTAIN} over them"
    )
    numbers = {
        "settings": settings, "depths": list(depths), "width": width, "points": points, "angle": shift * step,
        "kinds": results,
    }  # fmt: skip
    return concluded(numbers, sentences, draw)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The correlations at the largest depth, kind by kind."""
    deepest, kinds = numbers["depths"][-1], numbers["kinds"]
    values = [f"{_measured(result)} in {kind} nets" for kind, result in kinds.items()]
    first = (
        f"At {counted(deepest, 'layer')} the gradients of inputs {numbers['angle']:.2f} rad apart correlate by "
        f"{', '.join(values[:-1])} and {values[-1]}"
    )
    others = []
    for kind, result in kinds.items():
        found, error, theory = result["measured"][-1], result["errors"][-1], result["theory"][-1]
        agrees = abs(found - theory) <= error
        width = f"layers of {counted(numbers['width'], 'unit')}"
        verdict = f"which {width} agree with" if agrees else f"for which {width} are too narrow"
        others.append(
            f"{kind.capitalize()} nets of {counted(deepest, 'layer')}: {_measured(result)}; theory, of wide nets, "
            f"{theory:.3f}, {verdict}."
        )
    return (f"{first}.", *others)


def _measured(result: Mapping[str, Any]) -> str:
    return f"{result['measured'][-1]:.3f} ± {result['errors'][-1]:.3f}"


def _error(curves: Tensor, shift: int) -> float:
    """Half the width of the confidence interval of the correlation at this shift, by the jackknife over networks."""
    whole, count = correlation(curves)[shift].item(), len(curves)
    without = [correlation(torch.cat([curves[:i], curves[i + 1 :]]))[shift].item() for i in range(count)]
    return interval([count * whole - (count - 1) * each for each in without])[1]


def gradients(net: nn.Module, points: int, generator: Generator) -> Tensor:
    """The gradients of a random output of the net at inputs around a circle, (points, units)."""
    angles = torch.linspace(0, 2 * math.pi, points + 1, dtype=torch.float64)[:-1]
    first = next(net.parameters())
    width = first.shape[1]
    # The circle lies in a random plane of the first layer's inputs, which are as wide as all others.
    plane, _ = torch.linalg.qr(torch.randn(width, 2, generator=generator, dtype=torch.float64))
    x = (math.sqrt(width) * torch.stack([angles.cos(), angles.sin()], 1) @ plane.T).requires_grad_()
    outputs = net(x)
    direction = torch.randn(width, generator=generator, dtype=torch.float64)
    found: Tensor = torch.autograd.grad((outputs @ direction).sum(), x)[0]
    return found


def correlation(curves: Tensor) -> Tensor:
    """The autocorrelation of gradients, (nets, points, units), by the number of points between them, from 0 on."""
    spectrum = torch.fft.rfft(curves, dim=1).abs().square().sum((0, 2))
    together: Tensor = torch.fft.irfft(spectrum, n=curves.shape[1])
    return together / together[0]


def theoretical(angle: float, depth: int, beta: float) -> float:
    r"""The correlation at this angle in wide networks; :math:`\beta = \infty` is the plain net.

    >>> round(theoretical(math.pi / 2, 1, math.inf), 6)
    0.5
    """
    new = 1.0 if math.isinf(beta) else beta**2 / (1 + beta**2)  # the share of the layer in its output
    cosine, found = math.cos(angle), 1.0
    for _ in range(depth):
        theta = math.acos(max(-1.0, min(1.0, cosine)))
        found *= 1 - new * theta / math.pi
        kernel = (math.sin(theta) + (math.pi - theta) * math.cos(theta)) / math.pi
        cosine = (1 - new) * cosine + new * kernel
    return found


def _beta(kind: str, depth: int) -> float:
    betas = {"plain": math.inf, "residual": 1.0, "small residual": 1 / math.sqrt(depth)}
    return betas[kind]


def _network(depth: int, width: int, beta: float, generator: Generator) -> nn.Sequential:
    """Layers ``W relu(h)``, plain or with a skip connection."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        inner = nn.Sequential(nn.ReLU(), skip_init(nn.Linear, width, width, bias=False, dtype=torch.float64))
        plain = math.isinf(beta)
        initialize(inner, f"kaiming_normal:gain={math.sqrt(2) * (1.0 if plain else beta)}", generator)
        layers.append(inner if plain else Residual(inner))
    return nn.Sequential(*layers)


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Gradients along the circle, and their correlations by depth and by angle."""
    depths, kinds = numbers["depths"], numbers["kinds"]
    figure = new_figure(11.5, 6.8)
    grid = figure.add_gridspec(2, 6)
    angles = [point * 2 * math.pi / numbers["points"] for point in range(numbers["points"])]
    for column, (kind, color) in enumerate(zip(KINDS, PALETTE, strict=False)):
        axes = figure.add_subplot(grid[0, 2 * column : 2 * column + 2])
        axes.plot(angles, kinds[kind]["deepest_gradient"], color=color, linewidth=0.9)
        dress(axes, _title(kind, depths[-1]), "angle of the input in radians", "" if column else "directional gradient")
        axes.set_xlim(0, 2 * math.pi)
    _by_depth(figure.add_subplot(grid[1, :3]), numbers)
    _by_lag(figure.add_subplot(grid[1, 3:]), numbers)
    return figure


def _title(kind: str, depth: int) -> str:
    layer = {"plain": "f(h)", "residual": "h + f(h)", "small residual": f"h + f(h) / √{depth}"}[kind]
    return f"{kind.capitalize()}, {layer}, {counted(depth, 'layer')}"


def _by_depth(axes: Axes, numbers: Mapping[str, Any]) -> None:
    depths = numbers["depths"]
    for (kind, result), color in zip(numbers["kinds"].items(), PALETTE, strict=False):
        finer = range(1, max(depths) + 1)
        axes.plot(finer, [theoretical(numbers["angle"], depth, _beta(kind, depth)) for depth in finer], color=color)
        axes.errorbar(depths, result["measured"], result["errors"], fmt="o", color=color, markersize=5, label=kind)
    axes.plot([], [], color=MUTED, label="theory of wide nets")
    axes.set_xscale("log")
    axes.set_ylim(0, 1.03)
    axes.set_xticks(depths, [str(depth) for depth in depths])
    axes.minorticks_off()
    dress(axes, f"Correlation of gradients {numbers['angle']:.2f} rad apart", "number of layers", "correlation")
    legend(axes)


def _by_lag(axes: Axes, numbers: Mapping[str, Any]) -> None:
    deepest = numbers["depths"][-1]
    lags = [point * 2 * math.pi / numbers["points"] for point in range(numbers["points"] // 2 + 1)]
    for (kind, result), color in zip(numbers["kinds"].items(), PALETTE, strict=False):
        axes.plot(lags, result["deepest_by_lag"], "o", color=color, markersize=2.5)
        theory = [theoretical(lag, deepest, _beta(kind, deepest)) for lag in lags]
        axes.plot(lags, theory, color=color, linewidth=1.2)
    axes.set_xlim(0, math.pi)
    dress(axes, f"Autocorrelation at {counted(deepest, 'layer')}", "angle between two inputs in radians", "")
