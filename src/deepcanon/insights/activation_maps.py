"""Feature maps of each convolutional layer, and its dead channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import AnyBatch, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.layers import CONVOLUTIONS, PASSING, LayerOutput, images_of, outputs_of
from deepcanon.pictures.style import INK, LINE, MUTED, new_figure

ROWS = 6
"""The most layers in one figure; of more, the first, the last and some between are shown."""


def maps_of(model: nn.Module, inputs: Sequence[Any]) -> dict[str, Tensor]:
    """The feature maps of each convolution, (B, channels, height, width), by the layer's name, in order.

    A feature map is the last one before the next convolution: after the pooling, normalization and ReLU that follow
    it; the name is that of the last of these.
    """
    maps: list[LayerOutput] = []
    for output in outputs_of(model, inputs):
        if not output.is_map or isinstance(output.module, PASSING) or len(list(output.module.children())):
            continue
        if isinstance(output.module, CONVOLUTIONS):
            maps.append(output)
        elif maps:
            maps[-1] = output
    if not maps:
        raise UsageError("the model has no convolution with more than one position in its output for these examples")
    return {output.name: output.output for output in maps}


def activation_maps(model: nn.Module, batch: AnyBatch, *, example: int = 0, channels: int = 8) -> Finding:
    r"""The strongest feature maps of each convolutional layer for one image, and the number of dead channels.

    .. math:: A^k_{ij} = \max\Bigl(0, b_k + \sum_c (x_c \star W_{kc})_{ij}\Bigr)

    The feature maps :math:`A^k` are the outputs of a convolution after its pooling, normalization and ReLU, if it has
    them. A channel is dead if it is zero at all positions of all images of the batch; the share of zeros is the
    sparsity of a layer's output.

    References:
        | Visualizing and understanding convolutional networks (Zeiler and Fergus, 2014),
          https://arxiv.org/abs/1311.2901

    Arguments:
        model: The network.
        batch: Images; dead channels are those that none of them activates.
        example: The number of the image that is shown.
        channels: How many channels of each layer to show, those with the largest mean absolute activation first.
    """
    numbers, says = measured_maps(model, batch, example, channels)
    dead, count = _dead(numbers["layers"])
    return Finding(numbers, _figure(images_of(batch)[example], numbers["layers"], dead, count), says)


def measured_maps(
    model: nn.Module, batch: AnyBatch, example: int = 0, channels: int = 8
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The numbers and the sentences of :func:`activation_maps`, without its figure, which takes longer than they do."""
    images = images_of(batch)
    if not 0 <= example < len(images):
        raise UsageError(f"there are {counted(len(images), 'image')}, numbered from 0 (got {example})")
    if channels < 1:
        raise UsageError(f"channels must be at least 1 (got {channels})")
    maps = maps_of(model, batch.inputs)
    layers: list[dict[str, Any]] = []
    for name, found in maps.items():
        sizes = found[example].abs().mean((-2, -1))
        strongest = sizes.argsort(descending=True)[:channels]
        layers.append(
            {
                "layer": name,
                "channels": found.shape[1],
                "size": list(found.shape[2:]),
                "mean": float(found.mean()),
                "std": float(found.std(correction=0)),
                "zeros": float((found == 0).float().mean()),
                "dead": int((found == 0).all((0, 2, 3)).sum()),
                "strongest": strongest.tolist(),
                "maps": found[example, strongest].tolist(),
            }
        )
    dead, count = _dead(layers)
    last = layers[-1]
    says = (
        f"{dead} of {counted(count, 'channel')} are zero for all {counted(len(images), 'image')}.",
        f"Of the feature maps of the last convolution, in {last['layer']}, {last['zeros']:.0%} is zero.",
    )
    return {"example": example, "layers": layers}, says


def _dead(layers: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """The number of dead channels, and of all."""
    return sum(layer["dead"] for layer in layers), sum(layer["channels"] for layer in layers)


def _figure(image: Tensor, layers: Sequence[dict[str, Any]], dead: int, count: int) -> Figure:
    shown = list(layers)
    if len(layers) > ROWS:
        shown = [layers[round(i * (len(layers) - 1) / (ROWS - 1))] for i in range(ROWS)]
    columns = max(len(layer["maps"]) for layer in shown)
    title = (
        f"The strongest feature maps of each layer for one image; {dead} of all {counted(count, 'channel')} are dead"
    )
    figure = new_figure(1.0 * columns + 3.3, 1.05 * len(shown) + 0.8, title)
    grid = figure.subplots(len(shown), columns + 1, squeeze=False)
    for axes in grid.flat:
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
    low, high = image.aminmax()
    colors = image.detach().cpu().float().movedim(0, -1) if len(image) == 3 else image.detach().cpu().float().mean(0)
    scaled = (colors - low.cpu()) / (high - low).cpu().clamp_min(torch.finfo(torch.float32).tiny)
    grid[0, 0].imshow(scaled.numpy(), cmap="gray", vmin=0, vmax=1)
    grid[0, 0].set_title("image", fontsize=8, color=INK)
    for row, layer in enumerate(shown):
        lines = [layer["layer"], counted(layer["channels"], "channel"), "x".join(map(str, layer["size"]))]
        lines.append(f"{layer['zeros']:.0%} zeros")
        first = grid[row, 0]
        text = "\n".join(lines[1:])
        first.set_ylabel(
            f"{lines[0]}\n{text}", rotation=0, ha="right", va="center", fontsize=7, color=MUTED, labelpad=6
        )
        signed = min(min(map(min, map_)) for map_ in layer["maps"]) < 0
        for column, (channel, map_) in enumerate(zip(layer["strongest"], layer["maps"], strict=True), start=1):
            axes = grid[row, column]
            largest = max(max(map(abs, line)) for line in map_) or 1.0
            if signed:
                axes.imshow(map_, cmap="RdBu_r", vmin=-largest, vmax=largest)
            else:
                axes.imshow(map_, cmap="magma", vmin=0, vmax=largest)
            axes.set_title(f"channel {channel}", fontsize=7, color=MUTED, pad=2)
            for spine in axes.spines.values():
                spine.set_visible(True)
                spine.set_color(LINE)
    return figure
