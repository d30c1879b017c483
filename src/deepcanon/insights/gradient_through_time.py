"""Gradient through time: how much of a gradient reaches a recurrent state many steps back."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
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
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, footnote, legend, new_figure

KEPT = 0.01
"""A norm that changes by less than this share a step counts as kept."""

SMALLEST = 1e-12
"""A smaller norm is drawn as this, and a smaller singular value is not drawn."""

SPECTRA = 4
"""Of how many lags the singular values are shown."""


def gradient_through_time(model: nn.Module, batch: AnyBatch, *, steps: int = 40, sequences: int = 4) -> Finding:
    r"""The norm of the product of Jacobians that carries a gradient through time, by the number of steps.

    With the state :math:`s_t` of the first recurrent layers of a model, all their layers and parts, backpropagation
    through time multiplies a gradient at the last step t by

    .. math:: \frac{\partial s_t}{\partial s_{t-k}} = \prod_{i=0}^{k-1} \frac{\partial s_{t-i}}{\partial s_{t-i-1}}

    Its largest singular value is how much a gradient can grow or shrink on its way back through k steps; the others
    say in how many directions anything arrives at all. Where they fall exponentially gradients vanish, and no
    dependence over so many steps is learned. Of a linear network the product is :math:`U^k`, and its norm falls by the
    spectral radius of U a step.

    The product is exact: it is computed row by row by automatic differentiation of single steps, in double precision,
    along the states that the model passes through as it reads the sequences.

    References:
        | Learning long-term dependencies with gradient descent is difficult (Bengio et al., 1994),
          https://doi.org/10.1109/72.279181
        | On the difficulty of training recurrent neural networks (Pascanu et al., 2013),
          https://arxiv.org/abs/1211.5063

    Arguments:
        model: A model with recurrent layers, ours or torch's.
        batch: The sequences.
        steps: The number of steps to go back; of shorter sequences all.
        sequences: How many sequences are read, the first of the batch.
    """
    at_least(1, steps=steps, sequences=sequences)
    reading = read(model, batch.select(torch.arange(min(sequences, len(batch)))))
    found = products(reading, steps)
    numbers = _numbers(found, reading)
    return Finding(numbers, _figure(numbers), tuple(_says(numbers)))


@dataclass(frozen=True)
class Reading:
    """Recurrent layers in double precision, what they read, (T, B, inputs), and how long each sequence is, (B,)."""

    name: str
    layers: nn.Module
    x: Tensor
    lengths: Tensor

    def step(self, at: int, state: Tensor | None) -> Tensor:
        """The state after a step, (B, parts * layers * units), from the state before; None stands for zeros."""
        x = self.x[at : at + 1]
        if state is not None and len(state) != x.shape[1]:  # several rows for each sequence
            x = x.repeat_interleave(len(state) // x.shape[1], 1)
        rows = self._rows(state)
        if getattr(self.layers, "batch_first", False):
            x = x.transpose(0, 1)
        _, after = self.layers(x) if rows is None else self.layers(x, rows)
        parts = after if isinstance(after, tuple) else (after,)
        return torch.cat([part.transpose(0, 1).flatten(1) for part in parts], 1)

    def _rows(self, state: Tensor | None) -> Any:
        """The state as the layers take it: parts of (layers, B, units), in a tuple unless torch takes one alone."""
        if state is None:
            return None
        depth, units = int(self.layers.num_layers), int(self.layers.hidden_size)  # type: ignore[arg-type]
        parts = tuple(
            part.view(len(state), depth, units).transpose(0, 1).contiguous() for part in state.split(depth * units, 1)
        )
        return parts[0] if type(self.layers) in (nn.RNN, nn.GRU) else parts


def read(model: nn.Module, batch: AnyBatch) -> Reading:
    """Let a model read sequences, and keep what its first recurrent layers read."""
    layers = {
        module: name
        for name, module in model.named_modules()
        if hasattr(module, "num_layers") and hasattr(module, "hidden_size") and not list(module.children())
    }
    if not layers:
        raise UsageError(f"{type(model).__name__} has no recurrent layers, so that no gradient goes through time")
    seen: dict[nn.Module, Any] = {}

    def keep(layer: nn.Module, inputs: tuple[Any, ...], _: Any) -> None:
        seen.setdefault(layer, inputs[0])

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        with eval_mode(model):
            model(*batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    layer = next((layer for layer in layers if isinstance(seen.get(layer), Tensor)), None)
    if layer is None:
        raise UsageError(f"the recurrent layers of {type(model).__name__} read no padded sequences of values")
    x = seen[layer]
    if getattr(layer, "bidirectional", False) or getattr(layer, "proj_size", 0):
        raise UsageError("torch's layers of both directions, or with projections, have no single state to follow")
    if getattr(layer, "batch_first", False):
        x = x.transpose(0, 1)
    lengths = getattr(batch, "lengths", None)
    most = x.shape[0]
    ends = torch.full((x.shape[1],), most) if lengths is None else lengths.cpu().clamp_max(most)
    return Reading(layers[layer] or type(layer).__name__, copy.deepcopy(layer).double(), x.detach().double(), ends)


def products(reading: Reading, steps: int) -> list[Tensor]:
    r"""The products :math:`\partial s_t / \partial s_{t-k}` for k = 0, 1, 2 ..., (B, D, D) each.

    All sequences go back from the end of the shortest, at most so many ``steps``, to the state after their first step.
    """
    end = int(reading.lengths.min())
    back = min(steps, end - 1)
    if back < 1:
        raise UsageError("the shortest of the sequences has one step only, so that nothing goes back through time")
    states: list[Tensor] = []
    with torch.no_grad():
        state: Tensor | None = None
        for at in range(end):
            state = reading.step(at, state)
            states.append(state)
    size = states[0].shape[1]
    rows = torch.eye(size, dtype=torch.float64, device=reading.x.device).repeat(reading.x.shape[1], 1)  # (B D, D)
    found = [rows]
    for at in range(end - 1, end - 1 - back, -1):
        before = states[at - 1].repeat_interleave(size, 0).requires_grad_()  # each row of the product is one example
        with torch.enable_grad():
            after = reading.step(at, before)
            (rows,) = torch.autograd.grad(after, before, rows)
        found.append(rows)
    return [each.view(-1, size, size) for each in found]


def _numbers(found: list[Tensor], reading: Reading) -> dict[str, Any]:
    singular = torch.stack([torch.linalg.svdvals(each) for each in found])  # (lags, B, D)
    norms = singular[..., 0].clamp_min(1e-300)
    typical = norms.log().mean(1).exp()
    last = len(found) - 1
    middle = last // 2
    rate = math.exp(float((typical[last] / typical[middle]).log()) / (last - middle))
    shown = sorted({max(1, round(last ** (i / (SPECTRA - 1)))) for i in range(SPECTRA)} if last > 1 else {1})
    return {
        "layers": reading.name,
        "kind": type(reading.layers).__name__,
        "directions": singular.shape[2],
        "lags": list(range(last + 1)),
        "norms": norms.T.tolist(),
        "typical": typical.tolist(),
        "rate": rate,
        "spectra": {str(lag): singular[lag].log().nan_to_num(neginf=-700).mean(0).exp().tolist() for lag in shown},
        "alive": int((singular[last].mean(0) > 0.01).sum()),
    }


def _title(numbers: Mapping[str, Any]) -> str:
    rate, last = numbers["rate"], numbers["lags"][-1]
    left = numbers["typical"][-1]
    if abs(rate - 1) < KEPT:
        return f"Gradients keep their size through time: x{left:.2g} after {counted(last, 'step')}"
    word = "vanish" if rate < 1 else "explode"
    return f"Gradients {word} through time: x{rate:.3g} a step, x{left:.2g} after {counted(last, 'step')}"


def _says(numbers: Mapping[str, Any]) -> list[str]:
    rate = numbers["rate"]
    says = [_title(numbers) + "."]
    if rate < 1 - KEPT:
        half = math.log(0.5) / math.log(rate)
        says.append(f"A gradient loses half of its size every {half:.3g} steps at this rate.")
    alive, whole = numbers["alive"], numbers["directions"]
    lag = numbers["lags"][-1]
    says.append(
        f"After {counted(lag, 'step')} back, {alive} of {counted(whole, 'direction')} of the state still have more "
        "than a hundredth of their gradient."
    )
    return says


def _figure(numbers: Mapping[str, Any]) -> Figure:
    figure = new_figure(9.6, 3.9, _title(numbers))
    left, right = figure.subplots(1, 2)
    for norms in numbers["norms"]:
        left.plot(numbers["lags"], [max(norm, SMALLEST) for norm in norms], color=MUTED, linewidth=0.7, alpha=0.6)
    left.plot(numbers["lags"], [max(norm, SMALLEST) for norm in numbers["typical"]], color=PALETTE[0], linewidth=2.2,
              label="geometric mean of the sequences")  # fmt: skip
    last, end = numbers["lags"][-1], numbers["typical"][-1]
    line = [max(end * numbers["rate"] ** (lag - last), SMALLEST) for lag in numbers["lags"]]
    left.plot(numbers["lags"], line, color=INK, linewidth=1, linestyle="--", label=f"x{numbers['rate']:.3g} a step")
    _log(left, "Largest singular value of ∂s(t)/∂s(t-k)", "steps back k", "norm of the product of Jacobians")
    for (lag, values), color in zip(numbers["spectra"].items(), PALETTE, strict=False):
        shown = [value for value in values if value > SMALLEST]  # they fall: what follows is smaller still
        right.plot(range(1, len(shown) + 1), shown, color=color, label=f"{counted(int(lag), 'step')} back")
    _log(right, "All its singular values", "number", "singular value")
    footnote(figure, f"{numbers['kind']} {numbers['layers']!r}, a state of {numbers['directions']} numbers; "
                     f"{counted(len(numbers['norms']), 'sequence')}, one thin line each.")  # fmt: skip
    return figure


def _log(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 100 * low:  # less than two decades would make ripples look like waves
        middle = (low * high) ** 0.5
        axes.set_ylim(middle / 10, middle * 10)
    dress(axes, title, x, y)
    legend(axes)
