"""Signal propagation: the size of activations and of gradients from layer to layer."""

from __future__ import annotations

import copy
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Generator, Tensor, nn

from deepcanon.core import AnyBatch, UsageError, drawing_from
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines import mean_field
from deepcanon.nn.initialize import initialize as initialize_weights
from deepcanon.nn.initialize import own_weights
from deepcanon.pictures.style import INK, PALETTE, dress, legend, new_figure

OWN_SEEDS = 1_000_003
"""Added to seeds, so that weights are not drawn from the same random numbers as examples with this seed."""

KEPT = 0.05
"""A mean square that changes by less than this fraction per layer counts as kept."""


@dataclass(frozen=True)
class Signal:
    """The output of one layer with weights, and the gradient of the loss with respect to it."""

    layer: str
    values: Tensor
    gradient: Tensor | None
    """None where the objective does not depend on the layer."""


@dataclass(frozen=True)
class Signals:
    """The signals of all layers with weights, in the order of the forward pass."""

    layers: list[Signal]
    forward: list[float] | None
    """The mean squares of the outputs by mean-field theory; None where it does not apply."""
    backward: list[float] | None
    """The same of the gradients, given that of the last layer."""


def signal_propagation(model: nn.Module, batch: AnyBatch, *, initialize: str = "", seed: int = 0) -> Finding:
    r"""The mean squares of preactivations (forward) and of their gradients (backward), layer by layer.

    For the output :math:`z_l` of every layer with weights, before any activation, it measures

    .. math:: q_l = E[z_l^2], \qquad \tilde q_l = E\left[\left(\frac{\partial L}{\partial z_l}\right)^2\right]

    over examples and units. If :math:`q_l` shrinks or grows by a constant factor, the signals of a deep network vanish
    or explode; if :math:`\tilde q_l` does, its gradients vanish or explode. :math:`L` is the loss of the model times
    the number of examples, or for a module without one a random direction of its outputs. The model is in training
    mode: batch normalization takes the statistics of the batch.

    Where the model is a chain of linear layers and activations, the figure also shows the mean-field theory of wide
    layers with random weights of the same size (see :mod:`deepcanon.insights._engines.mean_field`).

    References:
        | Understanding the difficulty of training deep feedforward neural networks (Glorot and Bengio, 2010),
          https://proceedings.mlr.press/v9/glorot10a.html
        | Deep information propagation (Schoenholz et al., 2017), https://arxiv.org/abs/1611.01232

    Arguments:
        model: The model.
        batch: The examples.
        initialize: An initialization by name, such as "kaiming_normal" or "normal:std=0.1", which a copy of the model
            gets first; by default its weights are as they are.
        seed: The seed of the random numbers.
    """
    found = signals(model, batch, initialize=initialize, seed=seed)
    forward = [_square(signal.values) for signal in found.layers]
    backward = [None if signal.gradient is None else _square(signal.gradient) for signal in found.layers]
    numbers = {
        "layers": [signal.layer for signal in found.layers],
        "forward": forward,
        "backward": backward,
        "variance": [signal.values.double().var(correction=0).item() for signal in found.layers],
        "forward_theory": found.forward,
        "backward_theory": found.backward,
        "forward_factor": _factor(forward),
        "backward_factor": _factor(backward[::-1]),
    }
    return Finding(numbers, _figure(numbers), (_title(numbers) + ".",))


def signals(model: nn.Module, batch: AnyBatch, *, initialize: str = "", seed: int = 0) -> Signals:
    """The outputs of the layers with weights, with their gradients; the model itself is not touched."""
    twin = copy.deepcopy(model).requires_grad_().train()
    random = Generator(batch.x.device).manual_seed(seed + OWN_SEEDS)
    if initialize:
        initialize_weights(twin, initialize, random)
    with torch.enable_grad(), drawing_from(random), _recorded(twin) as calls:
        objective = _objective(twin, batch)
    weighted = [call for call in calls if own_weights(call.layer)]
    if not weighted:
        raise UsageError(f"no layer of {type(model).__name__} has weights, so there is nothing to follow")
    learning = [call.output for call in weighted if call.output.requires_grad]  # not what was computed without a graph
    gradients = iter(torch.autograd.grad(objective, learning, allow_unused=True) if learning else ())
    names = {layer: name for name, layer in twin.named_modules()}
    layers = [
        Signal(
            names[call.layer] or type(call.layer).__name__,
            call.output.detach(),
            next(gradients) if call.output.requires_grad else None,
        )
        for call in weighted
    ]
    forward = backward = None
    chain = [call.layer for call in calls]
    if _is_chain(calls) and mean_field.is_known(chain):
        start = _square(calls[0].input)
        forward = mean_field.forward(chain, start)
        last = layers[-1].gradient
        backward = None if last is None else mean_field.backward(chain, start, _square(last))
    return Signals(layers, forward, backward)


@dataclass(frozen=True)
class _Call:
    layer: nn.Module
    input: Tensor
    output: Tensor
    handed_on: Tensor


@contextmanager
def _recorded(model: nn.Module) -> Iterator[list[_Call]]:
    """A context in which all calls of the model's layers are recorded."""
    calls: list[_Call] = []

    def record(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        first, *rest = output if isinstance(output, tuple) else (output,)
        if not (inputs and isinstance(inputs[0], Tensor) and isinstance(first, Tensor) and first.is_floating_point()):
            return output
        handed_on = first.clone()  # an activation that works in place would else overwrite what is measured
        calls.append(_Call(layer, inputs[0], first, handed_on))
        return (handed_on, *rest) if isinstance(output, tuple) else handed_on

    parts = [layer for layer in model.modules() if own_weights(layer) or not list(layer.children())]
    handles = [layer.register_forward_hook(record) for layer in parts]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _is_chain(calls: list[_Call]) -> bool:
    """Whether the input of each layer is the output of the one before it."""
    return all(after.input is before.handed_on for before, after in itertools.pairwise(calls))


def _objective(model: nn.Module, batch: AnyBatch) -> Tensor:
    loss: Any = getattr(model, "loss", None)
    if callable(loss):
        return len(batch) * torch.stack([term.reshape(()) for term in loss(batch).values()]).sum()
    outputs = model(*batch.inputs)
    output: Tensor = outputs[0] if isinstance(outputs, tuple) else outputs
    return (output * torch.randn_like(output)).sum()


def _square(values: Tensor) -> float:
    return values.detach().double().square().mean().item()


def _factor(squares: Sequence[float | None]) -> float | None:
    """The median factor of the mean square from a layer to the next; None where it becomes 0."""
    if len(squares) < 2 or not all(squares):
        return None
    return float(statistics.median(after / before for before, after in itertools.pairwise(filter(None, squares))))


def _title(numbers: Mapping[str, Any]) -> str:
    if len(numbers["layers"]) == 1:
        return "Only one layer has weights"
    forward = _change("Signals", numbers["forward_factor"], numbers["forward"])
    return f"{forward}, {_change('gradients', numbers['backward_factor'], numbers['backward'])}"


def _change(what: str, factor: float | None, squares: Sequence[float | None]) -> str:
    if factor is None:
        return f"{what} are zero in {sum(not square for square in squares)} of {counted(len(squares), 'layer')}"
    if abs(factor - 1) < KEPT:
        return f"{what} keep their size"
    return f"{what} {'grow' if factor > 1 else 'shrink'} by x{factor:.3g} a layer"


def _figure(numbers: Mapping[str, Any]) -> Figure:
    figure = new_figure(9.6, 3.7, _title(numbers))
    left, right = figure.subplots(1, 2)
    _panel(left, numbers["forward"], numbers["forward_theory"], PALETTE[0])
    dress(left, "Forward: preactivations", "layer", "mean square E[z²]")
    _panel(right, numbers["backward"], numbers["backward_theory"], PALETTE[1])
    dress(right, "Backward: their gradients", "layer", "mean square E[(∂L/∂z)²]")
    return figure


def _panel(axes: Axes, measured: Sequence[float | None], theory: Sequence[float] | None, color: str) -> None:
    layers = range(1, len(measured) + 1)
    shown = [value or float("nan") for value in measured]  # zero cannot be drawn on a logarithmic axis
    axes.plot(layers, shown, "o", color=color, markersize=5, label="measured")
    if theory is not None:
        axes.plot(layers, [value or float("nan") for value in theory], color=INK, linewidth=1, label="theory")
    axes.set_yscale("log")
    axes.margins(y=0.2)
    low, high = axes.get_ylim()
    if high < 100 * low:  # less than two decades would make ripples look like waves
        middle = (low * high) ** 0.5
        axes.set_ylim(middle / 10, middle * 10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes)
