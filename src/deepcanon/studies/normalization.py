"""Invariances of batch, weight and layer normalization to changes of weights and data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn
from torch.nn.utils import skip_init
from torch.nn.utils.parametrizations import weight_norm

from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, new_figure
from deepcanon.studies._helpers.concluded import concluded

NORMALIZATIONS = ("none", "batch", "weight", "layer")

CHANGES = {
    "weight matrix re-scaling": r"$W \to 3\,W$",
    "weight matrix re-centering": r"$W \to W + \mathbf{1}\,c^\top$",
    "weight vector re-scaling": r"$w_2 \to 3\,w_2$",
    "data re-scaling": r"$X \to 3\,X$",
    "data re-centering": r"$X \to X + \mathbf{1}\,c^\top$",
    "single case re-scaling": r"$x_3 \to 3\,x_3$",
}
"""The changes by name, with what is done; rows of the weight matrix are units, rows of the data examples."""

INVARIANT = 1e-10
"""A relative change of the outputs below this is rounding."""


def normalization(*, inputs: int = 12, units: int = 8, examples: int = 32, seed: int = 0) -> Finding:
    r"""Invariances of batch, weight and layer normalization to changes of weights and data, measured.

    A linear layer :math:`z = W x` is followed by one of

    .. math:: \mathrm{batch}: \frac{z_{ni} - \mu_i}{\sigma_i}, \qquad
        \mathrm{weight}: \frac{z_{ni}}{\lVert w_i \rVert}, \qquad
        \mathrm{layer}: \frac{z_{ni} - \mu_n}{\sigma_n}

    with mean and standard deviation over the examples :math:`n` or over the units :math:`i`, without gain, bias and the
    small number under the root. A layer is invariant if its outputs stay as they were, up to rounding.

    References:
        | Layer normalization (Ba et al., 2016; table 1), https://arxiv.org/abs/1607.06450
        | Batch normalization (Ioffe and Szegedy, 2015), https://arxiv.org/abs/1502.03167
        | Weight normalization (Salimans and Kingma, 2016), https://arxiv.org/abs/1602.07868

    Arguments:
        inputs: The number of inputs of the layer.
        units: The number of its units.
        examples: The size of the batch.
        seed: The seed of the random numbers.
    """
    at_least(3, inputs=inputs, units=units, examples=examples)
    generator = Generator().manual_seed(seed)
    weight = torch.randn(units, inputs, generator=generator, dtype=torch.float64)
    x = torch.randn(examples, inputs, generator=generator, dtype=torch.float64)
    moved: dict[str, dict[str, float]] = {}
    for norm in NORMALIZATIONS:
        before = outputs(norm, weight, x)
        moved[norm] = {
            change: ((outputs(norm, *changed(change, weight, x)) - before).norm() / before.norm()).item()
            for change in CHANGES
        }
    invariant = {norm: [change for change in CHANGES if row[change] < INVARIANT] for norm, row in moved.items()}
    layer = f"A linear layer of {inputs} inputs and {counted(units, 'unit')}"
    settings = f"{layer} on {counted(examples, 'random example')}, in double precision"
    return concluded({"settings": settings, "relative_change": moved, "invariant": invariant}, sentences, draw)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """To how many and to which changes each normalization is invariant."""
    counts = [f"{_title(norm).lower()} to {len(changes)}" for norm, changes in numbers["invariant"].items()]
    return (
        f"Of {counted(len(CHANGES), 'change')} of weights and data, outputs are invariant with {', '.join(counts)}.",
        *(
            f"{_title(norm)} is invariant to {', '.join(changes)}."
            for norm, changes in numbers["invariant"].items()
            if changes
        ),
    )


def outputs(norm: str, weight: Tensor, x: Tensor) -> Tensor:
    """A linear layer with this normalization, without the small number under the root, without gain and bias."""
    if norm == "batch":
        return F.batch_norm(F.linear(x, weight), None, None, training=True, eps=1e-30)  # torch refuses 0
    if norm == "layer":
        return F.layer_norm(F.linear(x, weight), (len(weight),), eps=0.0)
    if norm == "none":
        return F.linear(x, weight)
    layer = weight_norm(skip_init(nn.Linear, weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype))
    layer.load_state_dict(
        {
            "parametrizations.weight.original0": torch.ones(len(weight), 1),
            "parametrizations.weight.original1": weight,
        }
    )
    normalized: Tensor = layer(x)
    return normalized.detach()


def changed(change: str, weight: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Weight and data after one of ``CHANGES``."""
    weight, x = weight.clone(), x.clone()
    shift = torch.linspace(0.5, 2, x.shape[1], dtype=x.dtype)
    if change == "weight matrix re-scaling":
        weight *= 3
    elif change == "weight matrix re-centering":
        weight += shift
    elif change == "weight vector re-scaling":
        weight[1] *= 3
    elif change == "data re-scaling":
        x *= 3
    elif change == "data re-centering":
        x += shift
    else:
        x[2] *= 3
    return weight, x


def _title(norm: str) -> str:
    return "No normalization" if norm == "none" else f"{norm.capitalize()} norm"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """A table of the relative changes of the outputs."""
    figure = new_figure(11.5, 4.3)
    axes = figure.add_subplot()
    for row, (norm, moves) in enumerate(numbers["relative_change"].items()):
        for column, (change, move) in enumerate(moves.items()):
            same = change in numbers["invariant"][norm]
            color, strength = (PALETTE[2], 0.85) if same else (PALETTE[1], 0.1 + 0.25 * min(move, 1))
            sides = [column - 0.48, column + 0.48]
            axes.fill_between(sides, row - 0.46, row + 0.46, color=color, alpha=strength, linewidth=0)
            words = "invariant" if same else f"{move:.0%}"
            axes.text(
                column, row - 0.08, words, ha="center", va="center", fontsize=10,
                color="white" if same else INK, fontweight="bold" if same else "normal",
            )  # fmt: skip
            axes.text(
                column, row + 0.25, f"moves by {_power(move)}" if same else "of their size", ha="center", va="center",
                fontsize=7, color="white" if same else MUTED,
            )  # fmt: skip
    dress(axes, grid=False)
    labels = [f"{change.replace(' re-', chr(10) + 're-')}\n{done}" for change, done in CHANGES.items()]
    axes.set_xticks(range(len(CHANGES)), labels, fontsize=8.5, color=INK)
    axes.set_yticks(range(len(NORMALIZATIONS)), [_title(norm) for norm in NORMALIZATIONS], fontsize=9.5, color=INK)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xlim(-0.5, len(CHANGES) - 0.5)
    axes.set_ylim(len(NORMALIZATIONS) - 0.5, -0.5)
    return figure


def _power(move: float) -> str:
    return "0" if move == 0 else f"{move:.0e}"
