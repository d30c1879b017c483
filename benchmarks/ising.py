"""A sweep of Gibbs sampling of an Ising lattice compared with NumPy: 512x512 spins, float32, one thread.

    python benchmarks/ising.py [--rounds 20] [--side 512] [--json results.json]

The straightforward checkerboard in NumPy sums the neighbors by ``np.roll``, draws a number for every site and keeps
those of one color, with spins as int8 or float32; the careful one draws only for half of the lattice. Blocks of ten
sweeps are interleaved, in processor time.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from side_by_side import interleaved, table

from deepcanon.models.energy._lattice import checkerboard

COUPLING, SWEEPS = 0.4, 10


def ours(side: int) -> Callable[[], None]:
    spins = torch.ones(1, side, side)

    def block() -> None:
        nonlocal spins
        spins = checkerboard(spins, COUPLING, 0.0, SWEEPS)

    return block


def straightforward(side: int, dtype: Any) -> Callable[[], None]:
    random, spins = np.random.default_rng(0), np.ones((side, side), dtype)
    colors = [np.indices((side, side)).sum(0) % 2 == color for color in (0, 1)]

    def block() -> None:
        nonlocal spins
        for _ in range(SWEEPS):
            for color in colors:
                around = np.roll(spins, 1, 0) + np.roll(spins, -1, 0) + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
                on = 1 / (1 + np.exp(np.float32(-2 * COUPLING) * around))
                drawn = np.where(random.random(spins.shape, np.float32) < on, 1, -1).astype(dtype)
                spins = np.where(color, drawn, spins)

    return block


def careful(side: int) -> Callable[[], None]:
    """The same by boolean masks, so that exponentials and random numbers are of the sites of one color only."""
    random, spins = np.random.default_rng(0), np.ones((side, side), np.float32)
    colors = [np.indices((side, side)).sum(0) % 2 == color for color in (0, 1)]

    def block() -> None:
        for _ in range(SWEEPS):
            for color in colors:
                around = np.roll(spins, 1, 0) + np.roll(spins, -1, 0) + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
                on = 1 / (1 + np.exp(np.float32(-2 * COUPLING) * around[color]))
                spins[color] = np.where(random.random(len(on), np.float32) < on, 1, -1)

    return block


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved blocks of sweeps of each candidate")
    parser.add_argument("--side", type=int, default=512, help="the side of the lattice")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    candidates = {
        "deepcanon": ours(arguments.side),
        "NumPy, float32": straightforward(arguments.side, np.float32),
        "NumPy, int8": straightforward(arguments.side, np.int8),
        "NumPy, careful": careful(arguments.side),
    }
    times = interleaved(candidates, arguments.rounds, clock=time.process_time)
    title = f"{SWEEPS} sweeps of {arguments.side}x{arguments.side} spins, processor time"
    numbers = {
        "sweeps": table(title, times, "deepcanon"),
        "machine": {"processor": platform.processor(), "torch": torch.__version__, "numpy": np.__version__},
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main()
