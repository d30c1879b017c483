"""The cost and the reach of attention, recurrence, convolution and restricted attention, measured against n."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.nn.attention import attention_weights
from deepcanon.nn.convolution import Causal
from deepcanon.nn.linear_attention import linear_attention
from deepcanon.nn.sparse_attention import local_attention
from deepcanon.pictures.style import PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded

Layer = Callable[[Tensor, int, int], Tensor]
"""From values (1, n, d), the kernel size k and the reach r to values (1, n, d)."""

THEORY = {
    "attention": ("n² d", "1"),
    "recurrent": ("n d²", "n"),
    "convolution": ("k n d²", "log n"),
    "restricted attention": ("r n d", "n / r"),
    "linear attention": ("n d (d + c) with chunks of c", "1"),
}
"""The operations of a layer and the path length, as in table 1 of Vaswani et al. (2017)."""


def attend(x: Tensor, kernel: int, reach: int) -> Tensor:
    """Causal softmax attention by its formula, with the weights of all pairs."""
    return attention_weights(x, x, causal=True) @ x


def recur(x: Tensor, kernel: int, reach: int, steps: int | None = None) -> Tensor:
    """A recurrent network; with ``steps``, gradients flow through so many of the last steps only."""
    cell = nn.RNNCell(x.shape[2], x.shape[2], bias=False, dtype=x.dtype)
    state, states = torch.zeros_like(x[:, 0]), []
    for place, value in enumerate(x.unbind(1)):
        if steps is not None and place == x.shape[1] - steps:
            state = state.detach()
        state = cell(value, state)
        states.append(state)
    return torch.stack(states, 1)


def convolve(x: Tensor, kernel: int, reach: int, dilation: int = 1) -> Tensor:
    """A causal convolution."""
    found: Tensor = Causal(x.shape[2], x.shape[2], kernel, dilation, bias=False).to(x)(x.mT).mT
    return found


def attend_near(x: Tensor, kernel: int, reach: int) -> Tensor:
    """Causal attention to ``reach`` positions, in chunks."""
    return local_attention(x, x, x, reach, causal=True)


def attend_linearly(x: Tensor, kernel: int, reach: int) -> Tensor:
    """Causal linear attention."""
    return linear_attention(x, x, x, causal=True)


LAYERS: Mapping[str, Layer] = {
    "attention": attend,
    "recurrent": recur,
    "convolution": convolve,
    "restricted attention": attend_near,
    "linear attention": attend_linearly,
}


def attention_cost(
    *,
    lengths: tuple[int, ...] = (128, 256, 512, 1024),
    widths: tuple[int, ...] = (16, 32, 64, 128),
    kernel: int = 4,
    reach: int = 16,
    seed: int = 0,
) -> Finding:
    r"""The operations, the memory and the path length of sequence layers, measured, and the powers of n they grow by.

    .. math:: \text{attention } n^2 d, \quad \text{recurrent } n d^2, \quad \text{convolution } k n d^2, \quad
              \text{restricted attention } r n d

    Operations are counted by torch (``torch.utils.flop_counter``) in one forward pass without projections, all layers
    being causal. Memory is what autograd keeps of it for the backward pass, weights left out. The path length is the
    number of layers, or of recurrent steps, after which the last output has a gradient in the first input: 1 of
    attention, n of a recurrence, :math:`\log_k n` of convolutions whose dilation grows by the factor k, and n / r of
    restricted attention. Sequential operations are the longest chain in the compute graph. Exponents are fitted by
    least squares to the logarithms.

    References:
        | Attention Is All You Need (Vaswani et al., 2017), table 1, https://arxiv.org/abs/1706.03762
        | Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention (Katharopoulos et al., 2020),
          https://arxiv.org/abs/2006.16236

    Arguments:
        lengths: The lengths n.
        widths: The widths d; with each, the length is the first.
        kernel: The kernel size k of the convolution.
        reach: How many positions restricted attention reaches back.
        seed: The seed of values and weights.
    """
    at_least(
        2, lengths=len(lengths), widths=len(widths), kernel=kernel, **{"the least length": min(lengths, default=0)}
    )
    at_least(1, reach=reach, **{"the least width": min(widths, default=0)})
    if reach >= min(lengths):
        raise UsageError(f"restricted attention reaches less than the whole text: reach={reach}, lengths={lengths}")
    torch.manual_seed(seed)
    layers = {}
    for name, layer in LAYERS.items():
        by_length = [_measured(layer, n, widths[0], kernel, reach) for n in lengths]
        by_width = [_measured(layer, lengths[0], d, kernel, reach)["operations"] for d in widths]
        row: dict[str, Any] = {key: [each[key] for each in by_length] for key in by_length[0]}
        row["paths"] = [path_length(name, n, kernel, reach) for n in lengths]
        row["operations_by_width"] = by_width
        row["exponents"] = {
            key: exponent(lengths, row[key]) for key in ("operations", "memory", "sequential", "paths")
        } | {"operations_by_width": exponent(widths, by_width)}
        layers[name] = row
    settings = (
        f"Lengths {lengths[0]} to {lengths[-1]} at width {widths[0]}, widths {widths[0]} to {widths[-1]} at length "
        f"{lengths[0]}; kernel {kernel}, reach {reach}; double precision, one sequence"
    )
    numbers = {
        "settings": settings, "lengths": list(lengths), "widths": list(widths), "kernel": kernel, "reach": reach,
        "layers": layers,
    }  # fmt: skip
    return concluded(numbers, sentences, draw)


def _measured(layer: Layer, length: int, width: int, kernel: int, reach: int) -> dict[str, float]:
    """The operations, the bytes kept for the backward pass, and the longest chain of the compute graph."""
    x = torch.randn(1, length, width, dtype=torch.float64, requires_grad=True)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if not isinstance(tensor if tensor._base is None else tensor._base, nn.Parameter):
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter, saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(x, kernel, reach)
    return {"operations": counter.get_total_flops(), "memory": sum(kept.values()), "sequential": _longest_chain(output)}


def _longest_chain(output: Tensor) -> int:
    """The number of nodes in the longest chain from the output back to a leaf."""
    found: dict[Any, int] = {}
    stack = [output.grad_fn]
    while stack:
        node = stack[-1]
        assert node is not None
        before = [each for each, _ in node.next_functions if each is not None]
        unknown = [each for each in before if each not in found]
        if unknown:
            stack += unknown
            continue
        found[node] = 1 + max((found[each] for each in before), default=0)
        stack.pop()
    return found[output.grad_fn]


def path_length(name: str, length: int, kernel: int, reach: int) -> int:
    """The least number of layers, or of recurrent steps, by which the last output depends on the first input."""
    too_few, enough = 0, 1
    while not _reaches(name, enough, length, kernel, reach):
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if _reaches(name, middle, length, kernel, reach):
            enough = middle
        else:
            too_few = middle
    return enough


def _reaches(name: str, depth: int, length: int, kernel: int, reach: int) -> bool:
    """Whether the gradient of the last output in the first input is not zero."""
    x = h = torch.rand(1, length, 2, dtype=torch.float64, requires_grad=True)
    if name == "recurrent":
        h = _linear_steps(x, depth)
    for layer in range(0 if name == "recurrent" else depth):
        step = partial(convolve, dilation=kernel**layer) if name == "convolution" else LAYERS[name]
        h = step(h, kernel, reach)
    (slope,) = torch.autograd.grad(h[0, -1].sum(), x, allow_unused=True)
    return slope is not None and bool(slope[0, 0].any())


def _linear_steps(x: Tensor, steps: int) -> Tensor:
    """The state of a recurrence that forgets nothing, whose gradients flow through the last ``steps`` steps."""
    state = torch.zeros_like(x[:, 0])
    for place, value in enumerate(x.unbind(1)):
        if place == x.shape[1] - steps:
            state = state.detach()
        state = state + value
    return state.unsqueeze(1)


def exponent(sizes: tuple[int, ...], values: list[float]) -> float:
    """The power of the size that the values grow by, fitted by least squares to the logarithms.

    >>> round(exponent((1, 2, 4), [3.0, 12.0, 48.0]), 6)
    2.0
    """
    logs = torch.tensor(sizes, dtype=torch.float64).log()
    heights = torch.tensor(values, dtype=torch.float64).log()
    centered = logs - logs.mean()
    return round(float((centered * heights).sum() / centered.square().sum()), 6) + 0.0  # and never minus zero


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The exponents and the paths of each layer."""
    longest, layers = numbers["lengths"][-1], numbers["layers"]
    whole, chain = layers["attention"], layers["recurrent"]
    first = (
        f"Attention takes n to the power of {whole['exponents']['operations']:.2f} operations and a path of "
        f"{whole['paths'][-1]} between any two of {longest} positions, a recurrence n to the power of "
        f"{chain['exponents']['operations']:.2f} and a path of {chain['paths'][-1]}"
    )
    others = []
    for name, row in layers.items():
        formula, path = THEORY[name]
        powers = row["exponents"]
        others.append(
            f"{name.capitalize()}: operations grow as n^{powers['operations']:.2f} "
            f"d^{powers['operations_by_width']:.2f} (theory {formula}), memory as n^{powers['memory']:.2f}, sequential "
            f"operations as n^{powers['sequential']:.2f}; the path at n = {longest} is {row['paths'][-1]} (theory "
            f"{path})."
        )
    return (f"{first}.", *others)


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Operations, memory, sequential operations and path length against n, on logarithmic scales."""
    figure = new_figure(12.5, 6.8)
    panels = figure.subplots(2, 2)
    titles = {
        "operations": ("Operations of a layer", "floating-point operations"),
        "memory": ("Memory kept for the backward pass", "bytes"),
        "sequential": ("Sequential operations", "longest chain in the compute graph"),
        "paths": ("Path between first and last", "layers, or recurrent steps"),
    }
    for axes, (key, (title, unit)) in zip(panels.flat, titles.items(), strict=True):
        _panel(axes, numbers, key, title, unit)
    return figure


def _panel(axes: Axes, numbers: Mapping[str, Any], key: str, title: str, unit: str) -> None:
    lengths = numbers["lengths"]
    styles = ("o-", "s--", "^-.", "d:", "v-")
    for (name, row), color, style in zip(numbers["layers"].items(), PALETTE, styles, strict=False):
        label = f"{name}, n^{row['exponents'][key]:.2f}"
        axes.plot(lengths, row[key], style, color=color, markersize=4, linewidth=1.4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * math.exp(0.5 * math.log(high / low)))  # with room for the legend
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()
    dress(axes, title, "length n", unit)
    legend(axes)
