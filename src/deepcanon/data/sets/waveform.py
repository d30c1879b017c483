"""Waveforms: tones of three harmonics in known noise, as tokens of the mu-law."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Sequences
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.mu_law import from_mu_law, to_mu_law
from deepcanon.data.split import fixed_random

LENGTH = 256
LEVELS = 64
NOISE = 0.02
PERIODS = (16.0, 48.0)
"""The shortest and the longest period of a tone, in steps."""
HARMONICS = 3


def tones(count: int, seed: int) -> NDArray[np.float64]:
    """Tones without noise, (count, LENGTH + 1): harmonics of one period, of random strengths and phases.

    >>> bool(abs(tones(3, seed=0)).max() < 0.9)
    True
    """
    random = fixed_random(seed)
    shortest, longest = np.log(PERIODS).tolist()
    period = np.exp(random.uniform(shortest, longest, size=(count, 1, 1)))
    strength = random.uniform(0.2, 1.0, size=(count, HARMONICS, 1)) / np.arange(1, HARMONICS + 1)[:, None]
    phase = random.uniform(0, 2 * np.pi, size=(count, HARMONICS, 1))
    angle = 2 * np.pi * np.arange(1, HARMONICS + 1)[:, None] * np.arange(LENGTH + 1) / period + phase
    loud = random.uniform(0.4, 0.85, size=(count, 1))
    return np.asarray(loud * (strength * np.sin(angle)).sum(1) / strength.sum(1))


def noise_entropy(tone: torch.Tensor) -> torch.Tensor:
    """The entropy of the token of each value of tones, in nats: the least that a model can reach."""
    # A token holds the values between the middles, on the scale of the mu-law, of it and its neighbors.
    edges = from_mu_law(torch.arange(LEVELS - 1).double() + 0.5, LEVELS).double()
    below = torch.special.ndtr((edges - tone.double().unsqueeze(-1)) / NOISE)
    whole = torch.cat([torch.zeros_like(below[..., :1]), below, torch.ones_like(below[..., :1])], -1)
    entropy: torch.Tensor = torch.special.entr(whole.diff(dim=-1)).sum(-1)
    return entropy


def load(entry: Entry) -> Dataset[Sequences]:
    """The splits, each with a seed of its own: 0 for training, 1 for validation, 2 for test."""
    parts = []
    for seed, count in enumerate(entry.counts):
        noise = NOISE * fixed_random(seed + len(entry.counts)).standard_normal((count, LENGTH + 1))
        wave = torch.from_numpy((tones(count, seed) + noise).clip(-1, 1))
        parts.append(Sequences(to_mu_law(wave, LEVELS), torch.full((count,), LENGTH + 1)))
    return entry.dataset(*parts)


WAVEFORM = Entry(
    name="waveform",
    kind="waveforms",
    shape=(LENGTH + 1,),
    sizes={"vocab": LEVELS, "length": LENGTH},
    counts=(2000, 200, 200),
    source=f"drawn here: tones of {HARMONICS} harmonics with noise of standard deviation {NOISE}, by the mu-law",
    load=load,
    preprocessing={"amplitudes": from_mu_law(torch.arange(LEVELS), LEVELS).tolist()},
)
