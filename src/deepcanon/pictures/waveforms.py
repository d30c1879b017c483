"""Pictures of waveforms: held-out ones, and those that a model makes of their beginnings."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core.roles import Generates
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure

WAVES = 4
GIVEN = 0.25
"""The share of a wave that is given to the model."""


def waveform_picture(
    model: Generates, x: Tensor, amplitudes: Sequence[float], title: str, split: str, generator: Generator
) -> Figure:
    """Waves of a split on the left, and on the right what the model makes of the beginning of each, on one scale."""
    given = max(1, round(GIVEN * x.shape[1]))
    made = model.generate(x[:, :given], x.shape[1] - given, generator=generator)
    heights = torch.tensor(amplitudes)
    real, drawn = (heights[tokens.cpu()] for tokens in (x, made))
    largest = 1.08 * float(torch.cat([real, drawn]).abs().max())
    figure = new_figure(11.0, 1.35 * len(x) + 1.0, title)
    grid = figure.subplots(len(x), 2, sharex=True, sharey=True, squeeze=False)
    for row, (left, right) in enumerate(grid):
        left.plot(real[row].tolist(), color=PALETTE[0], linewidth=1.0)
        right.plot(range(given), drawn[row, :given].tolist(), color=MUTED, linewidth=1.0, label="given")
        right.plot(
            range(given - 1, x.shape[1]),
            drawn[row, given - 1 :].tolist(),
            color=PALETTE[1],
            linewidth=1.0,
            label="made",
        )
        for axes, name in ((left, f"Real waves ({split})"), (right, "Made by the model")):
            axes.axvline(given - 0.5, color=MUTED, linewidth=0.6, linestyle=":")
            axes.set_ylim(-largest, largest)
            dress(axes, name if row == 0 else "", "step" if row == len(x) - 1 else "", "")
    legend(grid[0][1])
    return figure
