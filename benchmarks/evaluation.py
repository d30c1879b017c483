"""What the metrics cost: ``evaluate`` compared with the loss alone over the same batches, one thread.

    python benchmarks/evaluation.py [--rounds 15]

Both go through the same test examples in evaluation mode without gradients, in turn; the table gives medians of the
ratios of neighboring rounds.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import deepcanon as dc
from deepcanon.core import AnyBatch, Batch, Labeled, Model, eval_mode
from deepcanon.data import Batches

ROWS = 8192
SIZE = 1024


def cases() -> dict[str, tuple[Model[Any], AnyBatch]]:
    """The models with data of their size."""
    torch.manual_seed(0)
    y = torch.randint(10, (ROWS,))
    return {
        "realnvp": (dc.find("realnvp")(features=2), Batch(torch.randn(ROWS, 2))),
        "vae": (dc.find("vae")(features=784), Batch(torch.randn(ROWS, 784))),
        "mlp": (dc.find("mlp")(features=784, classes=10, hidden=(512, 512)), Labeled(torch.randn(ROWS, 784), y)),
        "cnn": (dc.find("cnn")(1, 28, 28, classes=10), Labeled(torch.randn(ROWS, 1, 28, 28), y)),
    }


def timed(action: Callable[[], object]) -> float:
    begun = time.process_time()
    action()
    return time.process_time() - begun


def losses(model: Model[Any], split: AnyBatch) -> None:
    """The loss alone, as a bare loop computes it."""
    with eval_mode(model):
        for batch in Batches(split, SIZE):
            sum(float(term) for term in model.loss(batch).values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for name, (model, split) in cases().items():
        ratios = []
        for _ in range(rounds + 1):
            alone = timed(partial(losses, model, split))
            ratios.append(timed(partial(dc.evaluate, model, split, size=SIZE)) / alone)
        print(f"{name:8} evaluate takes {statistics.median(ratios[1:]):.2f}x of the loss alone")


if __name__ == "__main__":
    main()
