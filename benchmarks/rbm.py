"""A restricted Boltzmann machine compared with scikit-learn's: digits, batches of 100, float32, one thread.

    python benchmarks/rbm.py [--rounds 40] [--json results.json]

Both learn by persistent contrastive divergence with one Gibbs step and as many chains as a batch has examples. Ours
runs through the trainer as it comes, and in a bare loop. Blocks of 20 steps are interleaved, each candidate in a
process of its own; the table gives medians of processor time over pairs of blocks and an A/A control.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import sklearn
import torch
from relay import STEPS, Candidate, race, ratio
from sklearn.neural_network import BernoulliRBM

import deepcanon as dc
from deepcanon.core import Batch, Terms
from deepcanon.models.energy.rbm import RBM
from deepcanon.train import Observer, Trainer

BATCH, LR, FOREVER = 100, 0.05, 100_000
Lap = Callable[[], None]


def ours(x: torch.Tensor, units: int) -> Callable[[Lap], None]:
    def train(lap: Lap) -> None:
        class Lapper(Observer):
            def step(self, trainer: Trainer, terms: Terms) -> None:
                lap()

        model = dc.find("rbm")(features=x.shape[1], units=units, chains=BATCH)
        data = dc.from_tensors(x)
        dc.fit(model, data, quiet=True, epochs=FOREVER, batch_size=BATCH, lr=LR, observers=[Lapper()])

    return train


def bare(x: torch.Tensor, units: int) -> Callable[[Lap], None]:
    """Our gradient and torch's SGD in a plain loop, which shows what the trainer adds."""

    def train(lap: Lap) -> None:
        model = RBM(x.shape[1], units, chains=BATCH)
        optimizer = torch.optim.SGD(model.parameters(), lr=LR, fused=True)
        for _ in range(FOREVER):
            for index in torch.randperm(len(x)).split(BATCH):
                model.gradient(Batch(x.index_select(0, index)))
                optimizer.step()
                lap()

    return train


def scikit_learn(x: torch.Tensor, units: int) -> Callable[[Lap], None]:
    def train(lap: Lap) -> None:
        class Lapping(BernoulliRBM):  # type: ignore[misc, unused-ignore]
            def _fit(self, *batch: Any) -> None:
                super()._fit(*batch)
                lap()

        Lapping(units, learning_rate=LR, batch_size=BATCH, n_iter=FOREVER, random_state=0).fit(x.numpy())

    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=40, help="interleaved blocks of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    digits = dc.load_data("digits:binary")
    x = torch.cat([digits.split(part).x.flatten(1) for part in ("train", "valid", "test")])
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    print(f"torch {torch.__version__}, scikit-learn {sklearn.__version__}, {platform.machine()}, 1 thread")
    for units in (100, 500):
        loops = {"deepcanon": ours, "scikit-learn": scikit_learn, "bare loop": bare, "deepcanon again": ours}
        mine, peer, plain, again = (Candidate(name, loop(x, units), process_time) for name, loop in loops.items())
        race([mine, peer, plain, again], arguments.rounds)
        print(f"{units} hidden units, {len(x)} digits, batches of {BATCH}")
        numbers[str(units)] = {}
        for each in (mine, plain, peer, again):
            epoch = [1e3 * block / STEPS * -(-len(x) // BATCH) for block in each.blocks]
            row = {
                "epoch_ms": statistics.median(epoch),
                "best_ms": min(epoch),
                "scikit_learn_slower_by": ratio(peer, each),
            }
            numbers[str(units)][each.name] = {key: round(value, 3) for key, value in row.items()}
            print(
                f"  {each.name:16} epoch {row['epoch_ms']:7.2f} ms, at best {row['best_ms']:7.2f} ms; "
                f"faster than scikit-learn by {row['scikit_learn_slower_by']:.2f}x"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
