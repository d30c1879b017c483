"""Lipschitz constants of networks: lower and upper bounds."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Generator, Tensor, nn
from torch.nn.functional import normalize

from deepcanon.core import AnyBatch, DataError, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.operator_norms import SIDE_BY_SIDE, constants
from deepcanon.microscopy.capture import Recorder
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure

FEW = 64
"""The most outputs for which the Jacobian is computed row by row; for more, its norm by power iteration."""

POWER_STEPS = 100
"""The number of steps of the power iteration."""


def lipschitz(model: nn.Module, batch: AnyBatch, *, directions: int = 64, seed: int = 0) -> Finding:
    r"""Lower and upper bounds on the Lipschitz constant of a network: norms of Jacobians, and products of norms.

    The Lipschitz constant is the smallest :math:`L` with
    :math:`\lVert f(x) - f(x') \rVert \le L \lVert x - x' \rVert` for all inputs, and the largest norm that the Jacobian
    has anywhere. Every measured slope is a lower bound, and for a graph of operations :math:`v_k = g_k(v_0, \dots,
    v_{k-1})` with :math:`v_0 = x` the chain rule gives the upper bound

    .. math:: L_0 = 1, \qquad L_k = \sum_{i=0}^{k-1} \mathrm{Lip}_i(g_k)\, L_i.

    Of a plain chain that is the product of the norms of its layers and the constants of its activations. It is a
    bound, not the constant: layers seldom stretch most where the ones before them do.

    References:
        | Intriguing properties of neural networks (Szegedy et al., 2014), https://arxiv.org/abs/1312.6199
        | Lipschitz regularity of deep neural networks: analysis and efficient estimation (Virmaux and Scaman, 2018),
          https://arxiv.org/abs/1805.10965

    Arguments:
        model: The model; what is measured is its ``forward``, in evaluation mode and in the Euclidean norm.
        batch: The examples at which slopes are measured; operators have the size that the first one gives them.
        directions: How many random directions are tried at each example.
        seed: The seed of the random directions.
    """
    at_least(1, directions=directions)
    found = bound(model, batch)
    x = batch.inputs
    local = local_constants(model, batch)
    sampled = sampled_slopes(model, batch, directions, seed)
    pairs = pair_slopes(model, batch)
    numbers: dict[str, Any] = {
        "pairs": float(pairs.max()) if len(pairs) else None,
        "sampled": float(sampled.max()),
        "local": float(local.max()),
        "bound": found.value,
        "chain": found.chain,
        "unbounded": list(found.unbounded),
        "local_by_example": local.tolist(),
        "sampled_by_example": sampled.tolist(),
        "steps": [{"name": step.name, "constants": step.constants, "bound": step.bound} for step in found.steps],
        "examples": len(x[0]),
    }
    return Finding(numbers, _figure(numbers), _sentences(numbers))


@dataclass(frozen=True)
class Step:
    """One operation: its constant in each input that depends on x, and the bound on its output."""

    name: str
    constants: list[float]
    bound: float | None


@dataclass(frozen=True)
class Bound:
    """An upper bound on the Lipschitz constant, with its steps."""

    value: float | None
    """None where some operation has no known constant."""
    steps: tuple[Step, ...]
    unbounded: tuple[str, ...]
    """The operations that have none."""
    chain: bool
    """Whether every operation takes the output of the one before it only, so that the bound is a product."""


def bound(model: nn.Module, batch: AnyBatch) -> Bound:
    """The upper bound over the compute graph of the model on the first example.

    >>> from deepcanon.core import Batch
    >>> layer = nn.Linear(2, 2, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[0.0, 2.0], [3.0, 0.0]]))
    >>> round(bound(nn.Sequential(layer, nn.ReLU(), layer), Batch(torch.ones(1, 2))).value, 9)
    9.0
    """
    tape, output = _recorded(model, batch)
    bounds: dict[tuple[int, int], float | None] = {}
    uses: dict[tuple[int, int], int] = {}
    steps, unbounded = [], []
    for number, record in enumerate(tape.records):
        if record.op == "input" and record.name == "x":
            bounds[number, 0] = 1.0
        tracked = [slot for slot, source in enumerate(record.inputs) if source in bounds]
        if not tracked or record.operation is None:
            continue
        before = [bounds[record.inputs[slot]] for slot in tracked]
        for slot in tracked:
            uses[record.inputs[slot]] = uses.get(record.inputs[slot], 0) + 1
        known = constants(record, tracked, tape.inputs(record))
        group = tape.groups[record.group].name if record.group is not None else ""
        name = f"{group}: {record.op.rstrip('_')}" if group else record.op.rstrip("_")
        after = None
        if known is None:
            unbounded.append(f"{name} ({record.where})" if record.where else name)
        elif all(value is not None for value in before):
            stretched = [factor * value for factor, value in zip(known, before, strict=True) if value is not None]
            together = math.hypot(*stretched) if record.op.rstrip("_") in SIDE_BY_SIDE else sum(stretched)
            after = float(together)
        for k in range(len(record.values)):
            bounds[number, k] = after
        steps.append(Step(name, known or [], after))
    return Bound(bounds.get(output, 0.0), tuple(steps), tuple(unbounded), all(count == 1 for count in uses.values()))


def product_bound(model: nn.Module, batch: AnyBatch) -> float:
    """The product of the norms of a chain of layers; a model that is not a chain, or has no bound, is refused."""
    found = bound(model, batch)
    if found.unbounded:
        raise UsageError(f"no Lipschitz constant is known of {', '.join(found.unbounded)}")
    if not found.chain:
        raise UsageError("the product bounds a plain chain of layers only; here some output is used twice: use bound()")
    return math.prod(step.constants[0] for step in found.steps)


def local_constants(model: nn.Module, batch: AnyBatch) -> Tensor:
    """The norm of the Jacobian at each example, (B,): the local Lipschitz constant.

    Of more than 64 outputs it comes from a power iteration, which can stop a little below.
    """
    x, outputs = _evaluated(model, batch)
    if outputs.shape[1] <= FEW:
        exact: Tensor = torch.linalg.matrix_norm(_rows(x, outputs), 2)
        return exact
    pull, push = _products(x, outputs)
    v = normalize(torch.randn(x.shape[0], x[0].numel(), generator=Generator().manual_seed(0), dtype=x.dtype), dim=1)
    for _ in range(POWER_STEPS):
        v = normalize(pull(push(v)), dim=1)
    stretched: Tensor = push(v).norm(dim=1)
    return stretched


def sampled_slopes(model: nn.Module, batch: AnyBatch, directions: int = 64, seed: int = 0) -> Tensor:
    """The largest slope along some random directions at each example, (B,)."""
    x, outputs = _evaluated(model, batch)
    size = x[0].numel()
    drawn = torch.randn(directions, size, generator=Generator().manual_seed(seed), dtype=x.dtype)
    if outputs.shape[1] <= FEW:
        slopes: Tensor = (_rows(x, outputs) @ normalize(drawn, dim=1).T).norm(dim=1).amax(-1)
        return slopes
    _, push = _products(x, outputs)
    rows = normalize(drawn, dim=1).unsqueeze(1).expand(-1, len(x), -1)
    return torch.stack([push(row).norm(dim=1) for row in rows]).amax(0)


def pair_slopes(model: nn.Module, batch: AnyBatch) -> Tensor:
    """The distance of the outputs of every two different examples, divided by the distance of the examples."""
    x, outputs = _evaluated(model, batch)
    far = [torch.nn.functional.pdist(rows) for rows in (x.detach().flatten(1), outputs.detach())]
    return far[1][far[0] > 0] / far[0][far[0] > 0]


def _recorded(model: nn.Module, batch: AnyBatch) -> tuple[Any, tuple[int, int]]:
    """The operations of the model on the first example, and which of their values is the output."""
    twin = copy.deepcopy(model).cpu().double().eval()
    x, *others = _one(batch)
    names = {id(x): ("input", "x")}
    for kind, entries in (("parameter", twin.named_parameters()), ("buffer", twin.named_buffers())):
        names.update({id(tensor): (kind, name) for name, tensor in entries})
    recorder = Recorder(twin, names)
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), recorder.watching():
        output = twin(x, *others)
    _check_output(output)
    tape, _ = recorder.tape(output)
    return tape, tape.loss


def _one(batch: AnyBatch) -> list[Any]:
    x, *others = batch.inputs
    _check_input(x)
    first = x[:1].detach().cpu().double().requires_grad_().clone()
    return [first, *(other[:1] if isinstance(other, Tensor) else other for other in others)]


def _evaluated(model: nn.Module, batch: AnyBatch) -> tuple[Tensor, Tensor]:
    """The inputs and the outputs of a copy in evaluation mode, the latter as rows with a graph."""
    twin = copy.deepcopy(model).cpu().double().eval()
    x, *others = batch.inputs
    _check_input(x)
    x = x.detach().cpu().double().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        output = twin(x, *others)
    _check_output(output)
    return x, output.flatten(1)


def _check_input(x: Any) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise DataError("a Lipschitz constant needs real inputs; tokens and graphs have no distances")


def _check_output(output: Any) -> None:
    if not isinstance(output, Tensor):
        raise UsageError(f"the output of the model must be one tensor, got {type(output).__name__}")
    if not output.requires_grad:
        raise UsageError("the output has no derivative with respect to the input")


def _rows(x: Tensor, outputs: Tensor) -> Tensor:
    """The Jacobian of each example, (B, outputs, inputs)."""
    rows = [
        torch.autograd.grad(outputs[:, j].sum(), x, retain_graph=True, materialize_grads=True)[0].flatten(1)
        for j in range(outputs.shape[1])
    ]
    return torch.stack(rows, 1)


def _products(x: Tensor, outputs: Tensor) -> tuple[Any, Any]:
    """Vector-Jacobian products for all examples at once and, through their derivative, Jacobian-vector products."""

    def pull(u: Tensor) -> Tensor:
        return torch.autograd.grad(outputs, x, u, retain_graph=True, materialize_grads=True)[0].flatten(1)

    probe = torch.zeros_like(outputs, requires_grad=True)
    with torch.enable_grad():
        (pulled,) = torch.autograd.grad(outputs, x, probe, create_graph=True, materialize_grads=True)

    def push(v: Tensor) -> Tensor:
        (pushed,) = torch.autograd.grad(pulled, probe, v.view_as(x), retain_graph=True, materialize_grads=True)
        return pushed

    return pull, push


def _figure(numbers: dict[str, Any]) -> Any:
    value = numbers["bound"]
    title = (
        f"No known bound: {numbers['unbounded'][0]}" if value is None
        else f"The upper bound is {value / numbers['local']:.3g} times the largest slope that was found"
        if numbers["local"] > 0 else "The outputs do not move at all"
    )  # fmt: skip
    figure = new_figure(13, 4.2, title)
    ladder, spread, growth = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
    _draw_ladder(ladder, numbers)
    slopes = {"steepest random direction": "sampled_by_example", "steepest direction of all": "local_by_example"}
    spread.hist(
        [numbers[key] for key in slopes.values()], bins=30, histtype="stepfilled", alpha=0.85,
        color=[PALETTE[5], PALETTE[0]], label=list(slopes),
    )  # fmt: skip
    dress(spread, "Slopes at the examples", "slope, change of output per change of input", "examples")
    legend(spread)
    _draw_growth(growth, numbers)
    return figure


def _draw_ladder(axes: Axes, numbers: dict[str, Any]) -> None:
    rungs = {
        "pairs of examples": numbers["pairs"],
        "random directions": numbers["sampled"],
        "Jacobian": numbers["local"],
        "product of norms" if numbers["chain"] else "bound of the graph": numbers["bound"],
    }
    shown = {name: value for name, value in rungs.items() if value}
    colors = [PALETTE[5], PALETTE[5], PALETTE[0], PALETTE[1]][: len(shown)]
    axes.barh(range(len(shown)), list(shown.values()), color=colors, height=0.6)
    axes.set_yticks(range(len(shown)), list(shown))
    axes.set_xscale("log")
    for row, value in enumerate(shown.values()):
        axes.annotate(f" {value:.4g}", (value, row), va="center", fontsize=8, color=INK)
    axes.margins(x=0.25)
    dress(axes, "Lower bounds and the upper bound", "slope, change of output per change of input")
    axes.grid(False, axis="y")


def _draw_growth(axes: Axes, numbers: dict[str, Any]) -> None:
    """From top to bottom, after each operation that stretches or shrinks."""
    known = [step for step in numbers["steps"] if step["bound"] is not None]
    steps = [step for step in known if step["constants"] != [1.0]]
    rows = [-i for i in range(len(steps))]
    bounds = [step["bound"] for step in steps]
    if any(bounds):
        axes.hlines(rows, 1, bounds, color=PALETTE[1], linewidth=1.2)
        axes.plot(bounds, rows, "o-", color=PALETTE[1], markersize=4, linewidth=0.8)
        axes.set_xscale("log")
    axes.axvline(1, color=MUTED, linewidth=0.8, linestyle="--")
    every = max(1, -(-len(steps) // 20))
    axes.set_yticks(rows[::every], [step["name"] for step in steps][::every])
    dress(axes, "The bound layer by layer, from top to bottom", "bound after the operation")


def _sentences(numbers: dict[str, Any]) -> tuple[str, ...]:
    lines = [
        f"The largest slope at {counted(numbers['examples'], 'example')} is {numbers['local']:.4g}; random directions "
        f"find {numbers['sampled']:.4g}."
    ]
    if numbers["pairs"] is not None:
        lines.append(f"Between two of the examples it is at most {numbers['pairs']:.4g}.")
    if numbers["bound"] is None:
        lines.append(f"There is no upper bound: no constant is known of {', '.join(numbers['unbounded'])}.")
    else:
        kind = "product of the layers' norms" if numbers["chain"] else "bound over the compute graph"
        lines.append(f"The Lipschitz constant lies between that and {numbers['bound']:.4g}, the {kind}.")
    return tuple(lines)
