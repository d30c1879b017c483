"""Depth compared with width: the linear regions of deep narrow and shallow wide networks of as many parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.regions import most_regions, regions_on_line
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, TUNING, bracketed, interval, winner
from deepcanon.studies._helpers.side_by_side import SideBySide, fit_side_by_side
from deepcanon.train.randomness import kept, seed_from, seed_torch

EXAMPLES = 256
RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
"""The learning rates of Adam with which the search for the best one begins."""
SHOWN = 4
"""The depth of the sawtooth that is drawn."""


def sawtooth(depth: int) -> nn.Sequential:
    r"""A ReLU network of two units per layer that folds the unit interval ``depth`` times.

    Each layer is the tent :math:`2 (x)_+ - 4 (x - \tfrac12)_+`; tents of tents have :math:`2^L` linear pieces.
    """
    at_least(1, depth=depth)
    spread, fold = torch.ones(2, 1, dtype=torch.float64), torch.tensor([[2.0, -4.0]], dtype=torch.float64)
    layers: list[nn.Module] = []
    for layer in range(depth):
        layers += [_linear(spread @ fold if layer else spread, torch.tensor([0.0, -0.5])), nn.ReLU()]
    return nn.Sequential(*layers, _linear(fold, torch.zeros(1)))


def zigzag(units: int) -> nn.Sequential:
    """A ReLU network of one hidden layer with the largest possible number of linear pieces on the unit interval."""
    at_least(1, units=units)
    joints = torch.arange(1, units + 1, dtype=torch.float64) / (units + 1)
    bends = 2.0 * (units + 1) * torch.ones(1, units, dtype=torch.float64)
    bends[0, 0] /= 2
    bends[0, 1::2] *= -1
    return nn.Sequential(
        _linear(torch.ones(units, 1, dtype=torch.float64), -joints), nn.ReLU(), _linear(bends, torch.zeros(1))
    )


def width_for(depth: int, parameters: int) -> int:
    """The width of so many hidden layers, from one input to one output, that comes nearest to so many parameters.

    >>> width_for(1, 301), width_for(2, 301)
    (100, 15)
    """
    return min(range(1, parameters + 1), key=lambda width: abs(_count(depth, width) - parameters))


def depth_and_width(
    mlp: type[Model[Any]],
    *,
    deepest: int = 10,
    parameters: int = 301,
    depths: tuple[int, ...] = (1, 2, 3, 5),
    folds: int = 4,
    epochs: int = 1000,
    repeats: int = 5,
    seed: int = 0,
) -> Finding:
    r"""The number of linear regions of deep narrow and of shallow wide ReLU networks with as many parameters.

    On the unit interval L layers of two ReLUs can fold :math:`2^L` times, while one layer of as many parameters has a
    joint for each of its units and no more:

    .. math:: \underbrace{6L + 1}_{\text{parameters}} \;\Rightarrow\; 2^L \text{ linear pieces of } L \text{ layers},
              \qquad 2L + 1 \text{ of one layer}

    Both networks are built, and their pieces are counted exactly. They are compared with networks trained on a
    sawtooth, all with about as many parameters and each depth at its best learning rate: what a deep network can
    represent need not be what training finds.

    References:
        | Benefits of depth in neural networks (Telgarsky, 2016), https://arxiv.org/abs/1602.04485
        | On the number of linear regions of deep neural networks (Montufar et al., 2014),
          https://arxiv.org/abs/1402.1869
        | Complexity of linear regions in deep networks (Hanin and Rolnick, 2019), https://arxiv.org/abs/1901.09021

    Arguments:
        mlp: The network that is trained.
        deepest: The most layers L of the sawtooth that is built.
        parameters: About how many parameters each trained network has.
        depths: The numbers of hidden layers of the trained networks.
        folds: How often the sawtooth to be learned is folded.
        epochs: The epochs of each training.
        repeats: How often each is trained, from other initial weights.
        seed: The seed of all random numbers.
    """
    at_least(1, deepest=deepest, folds=folds, epochs=epochs)
    at_least(2, repeats=repeats)
    built = [_built(depth) for depth in range(1, deepest + 1)]
    x = torch.linspace(-1, 1, EXAMPLES).unsqueeze(1)
    y = 2 * sawtooth(folds)((x.double() + 1) / 2).detach().float() - 1
    trained = [_trained(mlp, depth, parameters, x, y, epochs, repeats, seed) for depth in depths]
    settings = (
        f"Built: up to {counted(deepest, 'layer')}. Trained: {depths[0]} to {depths[-1]} hidden layers with about "
        f"{counted(parameters, 'parameter')}, on {EXAMPLES} points of a sawtooth folded {folds} times; Adam, "
        f"{counted(epochs, 'epoch')} of all points, cosine schedule, the first rate of each depth the best for its "
        f"error; {counted(repeats, 'network')} of each, {CERTAIN}"
    )
    numbers = {
        "settings": settings, "target_pieces": 2**folds, "built": built, "trained": trained, "x": x[:, 0].tolist(),
        "sawtooth": y[:, 0].tolist(),
    }  # fmt: skip
    return concluded(numbers, sentences, draw)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """What the networks that were built have, and what training found."""
    last, trained = numbers["built"][-1], numbers["trained"]
    pieces = [count for each in trained for count in each["after"]]
    deep = max(trained, key=lambda each: each["depth"])
    errors = {_layers(each): each["mse"] for each in trained}
    most = max(trained, key=lambda each: max(each["after"]) / (each["depth"] * each["width"]))
    share = max(most["after"]) / (most["depth"] * most["width"])
    return (
        f"With {counted(last['parameters'], 'parameter')} {counted(last['depth'], 'layer')} of two units have "
        f"{counted(last['deep'], 'linear piece')}, one layer of {counted(2 * last['depth'], 'unit')} has "
        f"{last['wide']}; networks that were trained have {min(pieces)} to {max(pieces)}.",
        f"A trained network has at most {share:.2f} pieces per unit, with {_layers(most)}; with {_layers(deep)} there "
        f"could be more than 10^{deep['log10_most']}.",
        f"Mean squared error on a sawtooth of {counted(numbers['target_pieces'], 'piece')}: "
        f"{', '.join(f'{_layers(each)} {_error(each)}' for each in trained)}; {winner(errors, lowest=True)}.",
    )


def _layers(each: Mapping[str, Any]) -> str:
    return f"{each['depth']} x {counted(each['width'], 'unit')}"


def _error(each: Mapping[str, Any]) -> str:
    """The mean squared error with its confidence interval, in words."""
    middle, width = interval(each["mse"])
    return f"{middle:.2g} ± {width:.1g}"


def _built(depth: int) -> dict[str, int]:
    deep, wide = sawtooth(depth), zigzag(2 * depth)
    sizes = {sum(each.numel() for each in net.parameters()) for net in (deep, wide)}
    (parameters,) = sizes  # both have as many
    return {"depth": depth, "parameters": parameters, "deep": _pieces(deep, 0, 1), "wide": _pieces(wide, 0, 1)}


def _trained(
    mlp: type[Model[Any]], depth: int, parameters: int, x: Tensor, y: Tensor, epochs: int, repeats: int, seed: int
) -> dict[str, Any]:
    """Several networks of this depth, before and after training at the rate that is best for other ones."""
    width = width_for(depth, parameters)

    def networks(numbers: range, rates: Sequence[float]) -> SideBySide:
        with kept():
            models = []
            for number in [number for _ in rates for number in numbers]:
                seed_torch(seed_from(seed, number))
                models.append(mlp(features=1, targets=1, hidden=(width,) * depth))
        each = [rate for rate in rates for _ in numbers]
        return fit_side_by_side(models, x, y.expand(len(models), -1, -1), steps=epochs, rates=each, cosine=True)

    def measure(rates: Sequence[float]) -> list[float]:
        return _errors(networks(range(-TUNING, 0), rates), x, y).view(len(rates), TUNING).mean(1).tolist()

    scores = bracketed(measure, RATES)
    best = min(scores, key=lambda rate: scores[rate])
    found = networks(range(repeats), [best])
    errors = _errors(found, x, y).tolist()
    middle = min(range(repeats), key=lambda number: abs(errors[number] - median(errors)))
    return {
        "depth": depth, "width": width, "parameters": _count(depth, width), "rate": best,
        "rates": {f"{rate:g}": scores[rate] for rate in sorted(scores)},
        "log10_most": len(str(most_regions([width] * depth, 1))) - 1,
        "before": [_pieces(model, -1, 1) for model in found.models],
        "after": [_pieces(found.trained(number), -1, 1) for number in range(repeats)],
        "mse": errors, "fit": found.outputs(x)[middle, :, 0].tolist(),
    }  # fmt: skip


def _errors(networks: SideBySide, x: Tensor, y: Tensor) -> Tensor:
    """The mean squared error of each network; of one that has diverged it is infinite."""
    return (networks.outputs(x) - y).square().mean((1, 2)).nan_to_num(float("inf"))


def _pieces(net: nn.Module, low: float, high: float) -> int:
    return regions_on_line(net, torch.tensor([low]), torch.tensor([high])).regions


def _count(depth: int, width: int) -> int:
    return 2 * width + (depth - 1) * width * (width + 1) + width + 1


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    outputs, inputs = weight.shape
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=torch.float64)  # which draws nothing
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer.requires_grad_(False)


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The networks that were built above, those that were trained below."""
    figure = new_figure(10.4, 8.2)
    (functions, growth), (fits, found) = figure.subplots(2, 2)
    _draw_functions(functions)
    _draw_growth(growth, numbers)
    fits.plot(numbers["x"], numbers["sawtooth"], color=MUTED, linewidth=3, alpha=0.5, label="sawtooth")
    for each, color in zip(numbers["trained"], PALETTE, strict=False):
        words = f"{_layers(each)}, rate {each['rate']:g}: mse {_error(each)}"
        fits.plot(numbers["x"], each["fit"], color=color, linewidth=1.2, label=words)
    fits.set_ylim(-1.3, 2.8)
    dress(fits, "What training finds: of each the network with the median error", "x", "output")
    legend(fits)
    for each in numbers["trained"]:
        start, end = ([each["depth"] + shift] * len(each["after"]) for shift in (-0.12, 0.12))
        found.scatter(start, each["before"], s=26, facecolors="none", edgecolors=PALETTE[4])
        found.scatter(end, each["after"], s=26, color=PALETTE[0], linewidths=0)
    units = [each["depth"] * each["width"] for each in numbers["trained"]]
    depths = [each["depth"] for each in numbers["trained"]]
    found.plot(depths, units, color=MUTED, linewidth=1, linestyle="--", label="number of units")
    found.axhline(numbers["target_pieces"], color=INK, linewidth=1, linestyle=":", label="pieces of the sawtooth")
    found.scatter([], [], s=26, facecolors="none", edgecolors=PALETTE[4], label="at initialization")
    found.scatter([], [], s=26, color=PALETTE[0], label="trained")
    found.set_xticks(depths)
    found.set_yscale("log", base=2)
    dress(found, "Linear pieces of the trained networks", "hidden layers", "linear pieces on [-1, 1]")
    legend(found)
    return figure


def _draw_functions(axes: Axes) -> None:
    x = torch.linspace(0, 1, 2**SHOWN * 20 + 1, dtype=torch.float64)
    deep, wide = sawtooth(SHOWN), zigzag(2 * SHOWN)
    axes.plot(x, deep(x.unsqueeze(1))[:, 0], color=PALETTE[0], linewidth=1.6, label=f"{SHOWN} layers of 2 units")
    axes.plot(
        x, wide(x.unsqueeze(1))[:, 0] + 1.3, color=PALETTE[1], linewidth=1.6, label=f"1 layer of {2 * SHOWN}, lifted"
    )
    axes.set_ylim(-0.05, 3.1)
    dress(axes, f"{6 * SHOWN + 1} parameters each: {2**SHOWN} pieces and {2 * SHOWN + 1}", "x", "output")
    legend(axes)


def _draw_growth(axes: Axes, numbers: Mapping[str, Any]) -> None:
    sizes = [each["parameters"] for each in numbers["built"]]
    line = torch.arange(sizes[0], sizes[-1] + 1, dtype=torch.float64)
    axes.plot(line, 2 ** ((line - 1) / 6), color=PALETTE[0], linewidth=1, label="2^L")
    axes.plot(line, (line - 1) / 3 + 1, color=PALETTE[1], linewidth=1, label="2L + 1")
    axes.scatter(sizes, [each["deep"] for each in numbers["built"]], s=26, color=PALETTE[0], label="deep, counted")
    axes.scatter(sizes, [each["wide"] for each in numbers["built"]], s=26, color=PALETTE[1], label="wide, counted")
    axes.set_yscale("log", base=2)
    dress(axes, "Networks that were built", "parameters, 6L + 1", "linear pieces on [0, 1]")
    legend(axes)
