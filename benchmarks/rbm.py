"""A restricted Boltzmann machine beside scikit-learn's: digits, batches of 100, float32, one thread.

    python benchmarks/rbm.py [--rounds 40] [--json results.json]

Both learn by persistent contrastive divergence with one sweep and as many chains as a batch has examples. Ours runs
through the trainer as it comes. Blocks of an epoch, nearly (20 of 18 steps), are interleaved in one process; the table
gives medians over pairs of blocks and an A/A control.
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
from typing import Any

import sklearn
import torch
from relay import STEPS, Contender, race, ratio
from sklearn.neural_network import BernoulliRBM

import deepcanon as dc
from deepcanon.core import Terms
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
    parser.add_argument("--rounds", type=int, default=40, help="interleaved blocks of each contender")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    digits = dc.load_data("digits:binary")
    x = torch.cat([digits.split(part).x.flatten(1) for part in ("train", "valid", "test")])
    numbers = {}
    print(f"torch {torch.__version__}, scikit-learn {sklearn.__version__}, {platform.machine()}, 1 thread")
    for units in (100, 500):
        mine, again = (Contender(name, ours(x, units)) for name in ("deepcanon", "deepcanon again"))
        peer = Contender("scikit-learn", scikit_learn(x, units))
        race([mine, peer, again], arguments.rounds)
        epochs = {each.name: statistics.median(each.blocks) / STEPS * -(-len(x) // BATCH) for each in (mine, peer)}
        numbers[str(units)] = {
            **{f"{name}_epoch_ms": round(1e3 * seconds, 2) for name, seconds in epochs.items()},
            "faster_by": round(ratio(peer, mine), 3),
            "control": round(ratio(again, mine), 3),
        }
        print(f"{units} hidden units: {json.dumps(numbers[str(units)])}")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
