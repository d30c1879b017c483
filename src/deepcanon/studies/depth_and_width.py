"""Depth compared with width: the linear regions of deep narrow and shallow wide networks of as many parameters."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import Labeled, Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.data import Dataset
from deepcanon.insights._engines.regions import most_regions, regions_on_line
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.train import fit

EXAMPLES = 256
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
    repeats: int = 3,
    seed: int = 0,
) -> Finding:
    r"""The number of linear regions of deep narrow and of shallow wide ReLU networks with as many parameters.

    On the unit interval L layers of two ReLUs can fold :math:`2^L` times, while one layer of as many parameters has a
    joint for each of its units and no more:

    .. math:: \underbrace{6L + 1}_{\text{parameters}} \;\Rightarrow\; 2^L \text{ linear pieces of } L \text{ layers},
              \qquad 2L + 1 \text{ of one layer}

    Both networks are built, and their pieces are counted exactly. They are compared with networks trained on a
    sawtooth, all with about as many parameters. With the defaults these have no more pieces than units, whatever their
    depth: the sawtooth that a deep network can represent is not what training finds.

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
    at_least(1, deepest=deepest, repeats=repeats, folds=folds)
    built = [_built(depth) for depth in range(1, deepest + 1)]
    x = torch.linspace(-1, 1, EXAMPLES).unsqueeze(1)
    y = 2 * sawtooth(folds)((x.double() + 1) / 2).detach().float() - 1
    data = Dataset(name="sawtooth", kind="table", train=Labeled(x, y), sizes={"features": 1, "targets": 1}, shape=(1,))
    trained = [_trained(mlp, depth, parameters, data, epochs, repeats, seed) for depth in depths]
    numbers = {"built": built, "trained": trained, "x": x[:, 0].tolist(), "sawtooth": y[:, 0].tolist()}
    deep = max(trained, key=lambda each: each["depth"])
    last, best = built[-1], min(trained, key=lambda each: sum(each["mse"]))
    pieces = [count for each in trained for count in each["after"]]
    says = (
        f"With {last['parameters']} parameters {last['depth']} layers of two units have {last['deep']} linear pieces, "
        f"one layer of {2 * deepest} units has {last['wide']}.",
        f"Trained networks of about {parameters} parameters have between {min(pieces)} and {max(pieces)} pieces; with "
        f"{deep['depth']} layers there could be more than 10^{deep['log10_most']}.",
        f"Closest to a sawtooth of {2**folds} pieces came {best['depth']} hidden layers of {best['width']} units, with "
        f"a mean squared error of {sum(best['mse']) / repeats:.2g}.",
    )
    return Finding(numbers, _draw(numbers, parameters, folds), says)


def _built(depth: int) -> dict[str, int]:
    deep, wide = sawtooth(depth), zigzag(2 * depth)
    sizes = {sum(each.numel() for each in net.parameters()) for net in (deep, wide)}
    (parameters,) = sizes  # both have as many
    return {"depth": depth, "parameters": parameters, "deep": _pieces(deep, 0, 1), "wide": _pieces(wide, 0, 1)}


def _trained(
    mlp: type[Model[Any]], depth: int, parameters: int, data: Dataset[Labeled], epochs: int, repeats: int, seed: int
) -> dict[str, Any]:
    """Several networks of this depth, before and after training."""
    width = width_for(depth, parameters)
    found: dict[str, Any] = {
        "depth": depth, "width": width, "parameters": _count(depth, width),
        "log10_most": len(str(most_regions([width] * depth, 1))) - 1, "before": [], "after": [], "mse": [],
    }  # fmt: skip
    for repeat in range(repeats):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + repeat)
            model = mlp(features=1, targets=1, hidden=(width,) * depth)
        found["before"].append(_pieces(model, -1, 1))
        fit(
            model, data, quiet=True, epochs=epochs, batch_size=EXAMPLES, lr=5e-3, schedule="cosine", seed=seed + repeat
        )  # fmt: skip
        found["after"].append(_pieces(model, -1, 1))
        with torch.no_grad():
            output = model(data.train.x)
        found["mse"].append(float((output - data.train.y).square().mean()))
        if found["mse"][-1] == min(found["mse"]):
            found["fit"] = output[:, 0].tolist()
    return found


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


def _draw(numbers: dict[str, Any], parameters: int, folds: int) -> Figure:
    figure = new_figure(10.4, 7.4, "Depth folds: twice the linear pieces with every layer, for well-chosen weights")
    (functions, growth), (fits, found) = figure.subplots(2, 2)
    _draw_functions(functions)
    _draw_growth(growth, numbers)
    fits.plot(numbers["x"], numbers["sawtooth"], color=MUTED, linewidth=3, alpha=0.5, label="sawtooth")
    for each, color in zip(numbers["trained"], PALETTE, strict=False):
        words = f"{each['depth']} x {each['width']} units, mse {min(each['mse']):.2g}"
        fits.plot(numbers["x"], each["fit"], color=color, linewidth=1.2, label=words)
    fits.set_ylim(-1.3, 2.4)
    dress(fits, f"What training finds with {parameters} parameters (best of {len(each['mse'])})", "x", "output")
    legend(fits)
    for each in numbers["trained"]:
        start, end = ([each["depth"] + shift] * len(each["after"]) for shift in (-0.12, 0.12))
        found.scatter(start, each["before"], s=26, facecolors="none", edgecolors=PALETTE[4])
        found.scatter(end, each["after"], s=26, color=PALETTE[0], linewidths=0)
    units = [each["depth"] * each["width"] for each in numbers["trained"]]
    depths = [each["depth"] for each in numbers["trained"]]
    found.plot(depths, units, color=MUTED, linewidth=1, linestyle="--", label="number of units")
    found.axhline(2**folds, color=INK, linewidth=1, linestyle=":", label="pieces of the sawtooth")
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


def _draw_growth(axes: Axes, numbers: dict[str, Any]) -> None:
    sizes = [each["parameters"] for each in numbers["built"]]
    line = torch.arange(sizes[0], sizes[-1] + 1, dtype=torch.float64)
    axes.plot(line, 2 ** ((line - 1) / 6), color=PALETTE[0], linewidth=1, label="2^L")
    axes.plot(line, (line - 1) / 3 + 1, color=PALETTE[1], linewidth=1, label="2L + 1")
    axes.scatter(sizes, [each["deep"] for each in numbers["built"]], s=26, color=PALETTE[0], label="deep, counted")
    axes.scatter(sizes, [each["wide"] for each in numbers["built"]], s=26, color=PALETTE[1], label="wide, counted")
    axes.set_yscale("log", base=2)
    dress(axes, "Networks that were built", "parameters, 6L + 1", "linear pieces on [0, 1]")
    legend(axes)
