"""Weight-space symmetries: permutations, sign flips and rescalings of hidden units that keep the function."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import AnyBatch, UsageError, eval_mode
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.pictures.style import INK, LINE, MUTED, PALETTE, dress, legend, new_figure

ALL = 4
"""The most units of a layer for which all N! 2^N symmetries are tried."""

HOLDS = 1e-12
"""A relative change of the outputs up to this is rounding."""

PROBE = 3.7
"""A generic factor, to test whether an activation is positively homogeneous."""


@dataclass(frozen=True)
class Hidden:
    """A hidden layer: units between two linear maps, used by only these two."""

    name: str
    before: nn.Linear
    activation: nn.Module
    after: nn.Linear

    @property
    def units(self) -> int:
        return self.before.out_features


def hidden_layers(model: nn.Module) -> list[Hidden]:
    """The hidden layers of a network: linear map, activation, perhaps dropout, linear map, as ``nn.Sequential``."""
    found = []
    for path, module in model.named_modules():
        if not isinstance(module, nn.Sequential):
            continue
        parts = [(name, part) for name, part in module.named_children() if not isinstance(part, nn.Dropout)]
        for (name, before), (_, activation), (_, after) in zip(parts, parts[1:], parts[2:], strict=False):
            if isinstance(before, nn.Linear) and isinstance(after, nn.Linear) and _acts_alike(activation):
                found.append(Hidden(f"{path}.{name}".lstrip("."), before, activation, after))
    return found


def permute(layer: Hidden, order: Tensor) -> None:
    """Permute the units of a layer."""
    with torch.no_grad():
        layer.before.weight.copy_(layer.before.weight[order])
        layer.after.weight.copy_(layer.after.weight[:, order])
        if layer.before.bias is not None:
            layer.before.bias.copy_(layer.before.bias[order])


def rescale(layer: Hidden, factors: Tensor, shift: float = 0.0) -> None:
    r"""Multiply the incoming weights of the units by factors and divide the outgoing ones by them; -1 flips a sign.

    With ``shift`` c the flipped units are those of an activation with :math:`\sigma(-a) = c - \sigma(a)`; the next bias
    absorbs c.
    """
    with torch.no_grad():
        layer.before.weight.mul_(factors.unsqueeze(1))
        if layer.before.bias is not None:
            layer.before.bias.mul_(factors)
        if shift:
            layer.after.bias.add_(shift * layer.after.weight[:, factors < 0].sum(1))
        layer.after.weight.div_(factors)


def flip_shift(activation: nn.Module) -> float | None:
    r"""The c with :math:`\sigma(-a) = c - \sigma(a)` for all a: 0 of odd activations, 1 of the logistic; None if none.

    >>> flip_shift(nn.Tanh()), flip_shift(nn.Sigmoid()), flip_shift(nn.ReLU())
    (0.0, 1.0, None)
    """
    sums = _values(activation, 1) + _values(activation, -1)
    shift = float(sums[0])
    return round(shift, 9) if float((sums - shift).abs().max()) < 1e-9 else None


def scales(activation: nn.Module) -> bool:
    r"""Whether :math:`\sigma(r a) = r \sigma(a)` for all r > 0 (positive homogeneity), as for ReLU.

    >>> scales(nn.ReLU()), scales(nn.Tanh())
    (True, False)
    """
    return bool((_values(activation, PROBE) - PROBE * _values(activation, 1)).abs().max() < 1e-9)


def by_activation(others: Sequence[nn.Module] = ()) -> dict[str, dict[str, bool]]:
    """The symmetries of units of the usual activations, and of others."""
    known = [nn.Tanh(), nn.Softsign(), nn.Sigmoid(), nn.ReLU(), nn.LeakyReLU(), nn.GELU(), nn.SiLU(), nn.Softplus()]
    found = {}
    for each in (*known, *others):
        shift = flip_shift(each)
        found[type(each).__name__] = {
            "permutation": True, "signs": shift == 0, "signs and next bias": shift is not None,
            "factor > 0": scales(each),
        }  # fmt: skip
    return found


def equal_weights(layer: Hidden) -> int:
    """The number of weight vectors of the same function by permutations and sign flips of this layer: N! 2^N or N!"""
    flips: int = 2**layer.units if _can_flip(layer) else 1
    return math.factorial(layer.units) * flips


def symmetries(model: nn.Module, batch: AnyBatch, *, tries: int = 384, seed: int = 0) -> Finding:
    r"""The number of weight vectors that give the same function, by permutations and sign flips of hidden units.

    Units of a hidden layer may be permuted. Where the activation is odd, as tanh is, the signs of all incoming and
    outgoing weights of a unit may be flipped, so that a layer of N units has

    .. math:: N! \; 2^N \qquad \text{since} \quad v \tanh(-a) = -v \tanh(a)

    weight vectors of one function, and a network the product over its layers. A logistic unit may flip, too, if the
    next bias absorbs :math:`\sigma(-a) = 1 - \sigma(a)`; a ReLU may not, but a factor r > 0 may be moved through it, so
    that each solution lies on a surface of them. The layer of fewest units is tried: all its symmetries up to four
    units, else ``tries`` of them at random. They are compared with a change that is not a symmetry: the signs of the
    incoming weights only.

    References:
        | On the geometry of feedforward neural network error surfaces (Chen et al., 1993),
          https://doi.org/10.1162/neco.1993.5.6.910
        | Functionally equivalent feedforward neural networks (Kurkova and Kainen, 1994),
          https://doi.org/10.1162/neco.1994.6.3.543

    Arguments:
        model: A network with a hidden layer in an ``nn.Sequential``: linear map, activation, linear map.
        batch: The inputs on which the functions are compared.
        tries: How many symmetries to try in a layer of more than four units.
        seed: The seed of those that are tried.
    """
    at_least(1, tries=tries)
    layers = hidden_layers(model)
    if not layers:
        raise UsageError(
            "symmetries are those of hidden layers: linear map, activation, linear map in an nn.Sequential; "
            f"{type(model).__name__} has none"
        )
    number = min(range(len(layers)), key=lambda i: layers[i].units)
    changes = _measure(model, batch, number, tries, seed)
    chosen = layers[number]
    everything = math.prod(equal_weights(layer) for layer in layers)
    numbers: dict[str, Any] = {
        "layers": [
            {"name": each.name, "units": each.units, "activation": _name(each),
             "log10_equal": math.log10(equal_weights(each))}
            for each in layers
        ],
        "log10_equal": math.log10(everything),
        "activations": by_activation([layer.activation for layer in layers]),
        "tried": {"layer": chosen.name, "units": chosen.units, "ways": len(changes["symmetry"])},
        "flips": _can_flip(chosen),
        "scales": scales(chosen.activation),
        "largest_change": {name: max(values) for name, values in changes.items()},
        "changes": changes,
    }  # fmt: skip
    return Finding(numbers, _draw(layers, numbers), _say(chosen, numbers))


def _measure(model: nn.Module, batch: AnyBatch, number: int, tries: int, seed: int) -> dict[str, list[float]]:
    """The relative changes of the outputs, for each kind of change of the weights."""
    net = copy.deepcopy(model).double()
    inputs = [part.double() if isinstance(part, Tensor) and part.is_floating_point() else part for part in batch.inputs]
    layer = hidden_layers(net)[number]
    shift = flip_shift(layer.activation) if _can_flip(layer) else None
    parts = [part for part in (layer.before.weight, layer.before.bias, layer.after.weight, layer.after.bias)
             if part is not None]  # fmt: skip
    kept = [part.detach().clone() for part in parts]

    def change(act: Callable[[], None]) -> float:
        act()
        with eval_mode(net):
            off = float((net(*inputs) - outputs).abs().max() / outputs.abs().max())
        with torch.no_grad():
            for part, old in zip(parts, kept, strict=True):
                part.copy_(old)
        return off

    with eval_mode(net):
        outputs = net(*inputs)
    changes: dict[str, list[float]] = {"symmetry": [], "one side only": []}
    if scales(layer.activation):
        changes["factor"] = []
    random = torch.Generator().manual_seed(seed)
    for order, signs in _ways(layer.units, shift is not None, tries, random):

        def both(order: Tensor = order, signs: Tensor = signs) -> None:
            rescale(layer, signs, shift or 0.0)
            permute(layer, order)

        changes["symmetry"].append(change(both))
    for unit in range(min(layer.units, tries)):

        def one_side(unit: int = unit) -> None:
            with torch.no_grad():
                layer.before.weight[unit] *= -1

        changes["one side only"].append(change(one_side))
        if "factor" in changes:
            factors = torch.ones(layer.units, dtype=torch.float64)
            factors[unit] = PROBE
            changes["factor"].append(change(lambda factors=factors: rescale(layer, factors)))  # type: ignore[misc]
    return changes


def _ways(units: int, flips: bool, tries: int, random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Permutations and signs: all of them in a small layer, else some at random."""
    if units <= ALL:
        for order in itertools.permutations(range(units)):
            for each in itertools.product([1.0, -1.0] if flips else [1.0], repeat=units):
                yield torch.tensor(order), torch.tensor(each, dtype=torch.float64)
        return
    for _ in range(tries):
        signs = torch.randint(0, 2, (units,), generator=random) * 2.0 - 1 if flips else torch.ones(units)
        yield torch.randperm(units, generator=random), signs.double()


def _can_flip(layer: Hidden) -> bool:
    shift = flip_shift(layer.activation)
    return shift is not None and (shift == 0 or layer.after.bias is not None)


def _acts_alike(module: nn.Module) -> bool:
    """Whether a module is elementwise, with the same function for every unit."""
    if next(module.parameters(), None) is not None and not isinstance(module, nn.PReLU):
        return False
    if isinstance(module, nn.PReLU) and module.num_parameters > 1:
        return False
    try:
        together = _values(module, 1)
        alone = torch.stack([module(point.reshape(1, 1)).reshape(()) for point in _points()])
    except (RuntimeError, ValueError, IndexError):
        return False
    return together.shape == alone.shape and bool(torch.allclose(together, alone))


def _points() -> Tensor:
    return torch.linspace(-3, 3, 25, dtype=torch.float64)


def _values(activation: nn.Module, factor: float) -> Tensor:
    with torch.no_grad():
        values: Tensor = copy.deepcopy(activation).double()((factor * _points()).unsqueeze(0))
    return values.reshape(-1)


def _name(layer: Hidden) -> str:
    return type(layer.activation).__name__


def _say(layer: Hidden, numbers: dict[str, Any]) -> tuple[str, ...]:
    flips = numbers["flips"]
    count = "N! 2^N" if flips else "N!"
    ways = numbers["tried"]["ways"]
    largest = numbers["largest_change"]
    says = [
        f"The signs of {_name(layer)} units {'can' if flips else 'cannot'} be flipped, so a layer of N units has "
        f"{count} equivalent weight vectors; the whole network has 10^{numbers['log10_equal']:.1f}.",
        f"{ways} of them were tried in {layer.name}, of {counted(layer.units, 'unit')}: the outputs change by at most "
        f"{largest['symmetry']:.1e} of their size; with signs flipped on one side only, by "
        f"{largest['one side only']:.1e}.",
    ]
    if "factor" in largest:
        says.append(
            f"A factor {PROBE} moved through a unit changes the outputs by {largest['factor']:.1e}, so there are whole "
            "surfaces of equivalent weights."
        )
    return tuple(says)


def _draw(layers: list[Hidden], numbers: dict[str, Any]) -> Figure:
    figure = new_figure(10.4, 4.2, f"10^{numbers['log10_equal']:.1f} weight vectors, one function")
    left, right = figure.subplots(1, 2)
    words = {
        "symmetry": "permutation and signs" if numbers["flips"] else "permutation",
        "factor": f"a factor {PROBE}",
        "one side only": "signs, one side only",
    }
    for column, (name, values) in enumerate(
        sorted(numbers["changes"].items(), key=lambda item: list(words).index(item[0]))
    ):
        spread = torch.linspace(-0.25, 0.25, len(values)).tolist() if len(values) > 1 else [0.0]
        shown = [max(value, 1e-17) for value in values]
        left.scatter([column + s for s in spread], shown, s=8, color=PALETTE[column], alpha=0.7, linewidths=0)
        left.text(column, 3e-19, f"{words[name]}\n{len(values)} tried", ha="center", va="top", fontsize=8, color=INK)
    left.axhline(HOLDS, color=MUTED, linewidth=1, linestyle="--", label="rounding lies below; zero is drawn at 1e-17")
    left.set_yscale("log")
    left.set_ylim(1e-18, 10)
    left.set_xticks([])
    dress(
        left,
        f"Symmetries of layer {numbers['tried']['layer']}",
        "",
        "largest relative change of the outputs",
    )
    left.xaxis.labelpad = 28
    left.set_xlabel(" ")
    legend(left)
    _draw_table(right, numbers["activations"], {_name(layer) for layer in layers})
    return figure


def _draw_table(axes: Axes, table: dict[str, dict[str, bool]], own: set[str]) -> None:
    """The symmetries of a unit by activation; the activations of the model are in bold."""
    columns = list(next(iter(table.values())))
    for row, (name, holds) in enumerate(table.items()):
        weight = "bold" if name in own else "normal"
        axes.text(-0.75, row, name, ha="right", va="center", fontsize=8, color=INK, fontweight=weight)
        for column, key in enumerate(columns):
            color = PALETTE[0] if holds[key] else LINE
            axes.scatter([column], [row], s=120 if holds[key] else 40, color=color, linewidths=0)
    axes.set_xlim(-2.6, len(columns) - 0.5)
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xticks(range(len(columns)), [name.replace(" and ", " and\n") for name in columns])
    dress(axes, "Symmetries of a unit, by its activation", grid=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
