"""Lattices of the Ising model: 8x8 spins in equilibrium, drawn exactly at a temperature."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Batch
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry, image_sizes
from deepcanon.data.split import fixed_random

SIDE = 8
TEMPERATURE = 2.5
"""In units of the coupling; an infinite lattice orders below 2.269."""
COUNTS = (1000, 200, 400)


def draw_lattices(count: int, temperature: float, seed: int) -> NDArray[np.float32]:
    """Independent lattices without a field, (count, 1, 8, 8): 1 for a spin that is up and 0 for one that is down.

    They are drawn row by row with the probabilities that powers of the transfer matrix give, so that no Markov chain
    has to forget its start.
    """
    random = fixed_random(seed)
    rows = np.array(list(product((-1.0, 1.0), repeat=SIDE)))
    within = (rows * np.roll(rows, -1, 1)).sum(1)
    exponents = (rows @ rows.T + 0.5 * (within[:, None] + within)) / temperature
    transfer = np.exp(exponents - exponents.max())
    powers = [np.eye(len(rows))]
    for _ in range(SIDE):
        power = powers[-1] @ transfer
        powers.append(power / power.max())
    first = states = _drawn(np.broadcast_to(powers[SIDE].diagonal(), (count, len(rows))), random)
    lattice = [first]
    for left in range(SIDE - 1, 0, -1):  # so many rows lie between the next one and the first, which closes the torus
        states = _drawn(transfer[states] * powers[left][:, first].T, random)
        lattice.append(states)
    return (rows[np.stack(lattice, 1)][:, None] > 0).astype(np.float32)


def _drawn(weights: NDArray[np.float64], random: np.random.RandomState) -> NDArray[np.int64]:
    """For each row of weights, an index drawn in proportion to them."""
    sums = weights.cumsum(1)
    found: NDArray[np.int64] = (sums < random.uniform(size=(len(weights), 1)) * sums[:, -1:]).sum(1)
    return found


def splits(temperature: float) -> list[Batch]:
    """The training, validation and test lattices at a temperature."""
    lattices = torch.from_numpy(draw_lattices(sum(COUNTS), temperature, 0))
    return [Batch(part) for part in lattices.split(COUNTS)]


def load(entry: Entry) -> Dataset[Batch]:
    return entry.dataset(*splits(TEMPERATURE))


ISING = Entry(
    name="ising",
    kind="images",
    shape=(1, SIDE, SIDE),
    sizes=image_sizes((1, SIDE, SIDE)),
    counts=COUNTS,
    source=f"drawn here: periodic lattices of {SIDE}x{SIDE} spins without a field, at the temperature {TEMPERATURE}",
    load=load,
    preprocessing={"levels": 2},
)
