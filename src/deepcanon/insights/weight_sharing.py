"""Convolutions of a model as sparse matrices: their weights are few and shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import AnyBatch, UsageError, eval_mode
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.nn.convolution_matrix import convolution_count, convolution_matrix
from deepcanon.pictures.style import PALETTE, dress, footnote, legend, new_figure

PLAIN = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Layers that are convolutions of their own input; classes derived from them pad it first."""
DRAWN = 8
"""The matrix is drawn for images of at most so many positions along each axis."""
CHECKED = 20_000_000
"""The largest number of products of a layer whose matrix is built to be compared with it."""
COUNTS = {"parameters": "weights", "products": "products", "dense": "weights and products if fully connected"}


def weight_sharing(model: nn.Module, batch: AnyBatch) -> Finding:
    r"""The convolutions of a model as sparse matrices: their weights and products, and those of full layers.

    A convolution is a linear map of the inputs, :math:`\mathrm{vec}(y) = A\, \mathrm{vec}(x) + b`, with

    .. math:: A_{(o, p), (c, q)} = w_{o, c, q - p} \quad \text{where } q - p \text{ is in the kernel, else } 0

    (stride 1; doubly blocked Toeplitz with two axes). A fully connected layer between the same units has a weight for
    each entry. A convolution has zeros in most of them (sparse connectivity), and the same weights in all rows
    (parameter sharing). Products with zeros of the padding are not counted.

    References:
        | Deep learning (Goodfellow et al., 2016; section 9.2), https://www.deeplearningbook.org
        | A guide to convolution arithmetic for deep learning (Dumoulin and Visin, 2016),
          https://arxiv.org/abs/1603.07285

    Arguments:
        model: A model with convolutions.
        batch: Some examples.
    """
    met = _inputs(model, batch)
    if not met:
        raise UsageError("the model has no plain convolution (nn.Conv1d, nn.Conv2d or nn.Conv3d) on these examples")
    layers = []
    for name, (layer, x) in met.items():
        count = convolution_count(tuple(layer.weight.shape), x.shape[2:], groups=layer.groups, **_settings(layer))
        found: dict[str, Any] = {
            "layer": name, "parameters": count.parameters, "products": count.products, "dense": count.dense,
            "rows": count.rows, "columns": count.columns,
        }  # fmt: skip
        layers.append({**found, "error": _error(layer, x) if count.products <= CHECKED else None})
    name, (layer, x) = next(iter(met.items()))
    sizes = [min(DRAWN, size) for size in x.shape[2:]]
    own = convolution_matrix(layer.weight[:1, :1].detach().double(), sizes, border=_border(layer), **_settings(layer))
    numbers: dict[str, Any] = {"layers": layers, "drawn": {"layer": name, "size": sizes, "matrix": _dense(own)}}
    return Finding(numbers, _figure(numbers), _says(numbers))


def _inputs(model: nn.Module, batch: AnyBatch) -> dict[str, tuple[Any, Tensor]]:
    """Every plain convolution by its name, with the first of its inputs."""
    met: dict[str, tuple[Any, Tensor]] = {}

    def keep(name: str) -> Any:
        def first(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
            met.setdefault(name, (layer, given[0][:1].detach().clone()))

        return first

    plain = [(name, module) for name, module in model.named_modules() if type(module) in PLAIN]
    handles = [module.register_forward_pre_hook(keep(name)) for name, module in plain]
    try:
        with eval_mode(model), torch.no_grad(), torch.random.fork_rng(devices=[]):
            model(*batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    return met


def _settings(layer: Any) -> dict[str, Any]:
    return {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}


def _border(layer: Any) -> Any:
    return layer.padding_mode


def _error(layer: Any, x: Tensor) -> float:
    """The largest difference between the layer and the product with its matrix, relative to the outputs."""
    weight, x = layer.weight.detach().double(), x.double()
    matrix = convolution_matrix(weight, x.shape[2:], border=_border(layer), groups=layer.groups, **_settings(layer))
    with torch.no_grad():
        wanted = layer._conv_forward(x, weight, None)
    found = (matrix @ x.flatten()).reshape(wanted.shape)
    return float((found - wanted).abs().max() / wanted.abs().max().clamp_min(1e-300))


def _dense(matrix: Tensor) -> list[list[float]]:
    rows: list[list[float]] = matrix.to_dense().tolist()
    return rows


def _says(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    layers = numbers["layers"]
    total = {name: sum(layer[name] for layer in layers) for name in COUNTS}
    says = [
        f"{counted(len(layers), 'convolution')} with {counted(total['parameters'], 'weight', ',')} and "
        f"{total['products']:,} products for each example; fully connected, they would have {total['dense']:,} of both."
    ]
    says += [
        f"{layer['layer']}: a matrix of {layer['rows']:,} x {layer['columns']:,} of whose entries "
        f"{layer['products'] / layer['dense']:.2%} are not zero, each of {counted(layer['parameters'], 'weight', ',')} "
        f"{layer['products'] / layer['parameters']:.1f} times on average."
        for layer in layers
    ]
    errors = [layer["error"] for layer in layers if layer["error"] is not None]
    if errors:
        says.append(
            f"The product with the matrix is the output of the convolution, up to {max(errors):.0e}, in "
            f"{len(errors)} of {counted(len(layers), 'layer')}."
        )
    return tuple(says)


def _figure(numbers: Mapping[str, Any]) -> Figure:
    layers, drawn = numbers["layers"], numbers["drawn"]
    figure = new_figure(11.5, 5.0, _says(numbers)[0])
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1, 1.15]})
    _draw_matrix(left, drawn)
    places = range(len(layers))
    for i, ((name, words), color) in enumerate(zip(COUNTS.items(), PALETTE, strict=False)):
        right.barh([place + 0.27 * (i - 1) for place in places], [layer[name] for layer in layers], 0.25, color=color,
                   label=words)  # fmt: skip
    right.set_xscale("log")
    right.set_yticks(places, [layer["layer"] for layer in layers])
    right.invert_yaxis()
    dress(right, "Weights and products of each convolution", "number")
    right.grid(False, axis="y")
    legend(right)
    footnote(figure, "Left: the matrix between one input channel and one output channel, red above zero, blue below.")
    return figure


def _draw_matrix(axes: Axes, drawn: Mapping[str, Any]) -> None:
    matrix = drawn["matrix"]
    largest = max((abs(value) for row in matrix for value in row), default=0.0) or 1.0
    axes.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
    size = "x".join(map(str, drawn["size"]))
    dress(axes, f"{drawn['layer']} as a matrix, on {size} positions", "input position", "output position", grid=False)
