"""Sensitivity analysis: the gradient of a network's output in its inputs, by feature and by example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import AnyBatch, DataError, UsageError, eval_mode
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.pictures.style import PALETTE, dress, new_figure

SHOWN = 16
"""How many features have a bar: those that the output is most sensitive to."""


def sensitivity(model: nn.Module, batch: AnyBatch, *, target: int | None = None) -> Finding:
    r"""The gradient of an output in the inputs: which features it is sensitive to, and at which examples.

    .. math:: g_{ij} = \frac{\partial y(x_i)}{\partial x_{ij}}, \qquad
              s_j = \frac1n \sum_i |g_{ij}|, \qquad r_i = \lVert g_i \rVert

    The output :math:`y` is the score of a class, by default of the most probable one of each example, or the value of
    a regression. Of a linear model :math:`g` are the weights, the same at all examples. ``input_gradients`` gives the
    same of a table in the units of its columns.

    References:
        | Deep inside convolutional networks: visualising image classification models and saliency maps (Simonyan et
          al., 2014), https://arxiv.org/abs/1312.6034

    Arguments:
        model: The network; what is differentiated is its ``forward``, in evaluation mode.
        batch: The examples, of real numbers.
        target: The number of the output; by default the largest of each example.
    """
    slopes = input_slopes(model, batch, target)
    sizes = slopes.abs().mean(0)
    norms = slopes.flatten(1).norm(dim=1)
    spread = float((slopes - slopes.mean(0)).square().mean().sqrt() / slopes.square().mean().sqrt().clamp_min(1e-300))
    numbers = {
        "by_feature": sizes.flatten().tolist(),
        "mean_gradient": slopes.mean(0).flatten().tolist(),
        "by_example": norms.tolist(),
        "spread_over_examples": spread,
        "shape": list(sizes.shape),
        "target": target,
    }
    return Finding(numbers, _figure(sizes, norms), _sentences(numbers))


def input_slopes(model: nn.Module, batch: AnyBatch, target: int | None = None) -> Tensor:
    """The gradient of one output of each example in its own inputs, of the shape of x."""
    if not isinstance(batch.x, Tensor) or not batch.x.is_floating_point():
        raise DataError(f"gradients are taken by real numbers; the inputs are {batch.noun}")
    x = batch.x.detach().clone().requires_grad_()
    with eval_mode(model), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        output = model(x, *batch.inputs[1:])
        if not isinstance(output, Tensor) or output.ndim not in (1, 2) or len(output) != len(x):
            raise UsageError(
                "sensitivity is that of outputs (examples, outputs); that of "
                f"{type(model).__name__} is {tuple(output.shape) if isinstance(output, Tensor) else type(output)}"
            )
        output = output.reshape(len(x), -1)
        if target is not None and not 0 <= target < output.shape[1]:
            raise UsageError(f"the target is an output from 0 to {output.shape[1] - 1}, got {target}")
        score = output.amax(1) if target is None else output[:, target]
        (slopes,) = torch.autograd.grad(score.sum(), x)
    return slopes.double()


def _sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    sizes, norms = torch.tensor(numbers["by_feature"]), torch.tensor(numbers["by_example"])
    order = sizes.argsort(descending=True, stable=True)[:3].tolist()
    least, most = float(norms.min()), float(norms.max())
    listed = ", ".join(f"{_place(feature, numbers['shape'])} ({float(sizes[feature]):.3g})" for feature in order)
    return (
        f"The output is most sensitive to {listed}, by the mean size of the gradient.",
        f"The norm of the gradient is from {least:.3g} to {most:.3g} among {counted(len(norms), 'example')}.",
        f"From example to example gradients differ by {numbers['spread_over_examples']:.0%} of their size; "
        "those of a linear output do not differ.",
    )


def _place(feature: int, shape: list[int]) -> str:
    """The name of a feature: its number, or the pixel of an image."""
    if len(shape) != 3:
        return f"feature {feature + 1}"
    channel, row, column = torch.unravel_index(torch.tensor(feature), shape)
    pixel = f"pixel ({int(row)}, {int(column)})"
    return pixel if shape[0] == 1 else f"{pixel} of channel {int(channel) + 1}"


def _figure(sizes: Tensor, norms: Tensor) -> Figure:
    figure = new_figure(8.6, 3.8, "Which inputs move the output, and where")
    left, right = figure.subplots(1, 2)
    if sizes.ndim == 3:
        shown = left.imshow(sizes.mean(0).numpy(), cmap="Blues", vmin=0)
        figure.colorbar(shown, ax=left, shrink=0.8)
        dress(left, "Mean size of the gradient at each pixel", grid=False)
        left.set_xticks([])
        left.set_yticks([])
    else:
        flat = sizes.flatten()
        order = flat.argsort(descending=True, stable=True)[:SHOWN]
        left.barh([str(place + 1) for place in order.tolist()], flat[order].numpy(), color=PALETTE[0])
        left.invert_yaxis()
        dress(left, "Mean size of the gradient", "size", "feature")
    right.hist(norms.numpy(), bins=min(30, max(1, len(norms) // 2)), color=PALETTE[0])
    dress(right, "Norm of the gradient, by example", "norm", "examples")
    return figure
