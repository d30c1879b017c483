"""The picture of waveforms: real ones, and what a model makes of their beginnings."""

import numpy as np
import torch

from deepcanon.data.load import load_data
from deepcanon.models.autoregressive.wavenet import WaveNet
from deepcanon.pictures.waveforms import waveform_picture


def test_a_made_wave_begins_with_the_one_beside_it() -> None:
    data = load_data("waveform")
    torch.manual_seed(0)
    model = WaveNet(64, channels=4, skip=4, layers=2)
    x = data.split("test").x[:2, :40]
    heights = data.preprocessing["amplitudes"]
    figure = waveform_picture(model, x, heights, "a title", "test", torch.Generator().manual_seed(0))
    (left, right), _ = figure.axes[:2], figure.axes[2:]
    real, given, made = (np.asarray(line.get_ydata()).tolist() for line in (left.lines[0], *right.lines[:2]))
    assert given == real[:10]
    assert len(made) == 31
    assert set(made) <= set(torch.tensor(heights).tolist())
