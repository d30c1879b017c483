"""Ratings of MovieLens 100K, split u1, predicted by ratings_rbm and by the biases of users and items.

    python benchmarks/ratings.py [--epochs 50] [--units 100] [--seeds 1]

The biases are fitted in turn with five ratings of damping; the machine predicts by the exact expectation given all
ratings in u1.base. The files are not passed on: docs/data.md says where they belong.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import DataError, HeldOut

DAMPING, ROUNDS = 5.0, 20


def biases(test: HeldOut) -> float:
    """The RMSE of the mean plus the bias of the user plus that of the item, fitted to what is given."""
    there, x = test.observed, test.x.nan_to_num(0.0)
    mean: Tensor = x.sum() / there.sum()
    user, item = torch.zeros(len(x), 1), torch.zeros(1, x.shape[1])
    for _ in range(ROUNDS):
        item = ((x - mean - user) * there).sum(0, keepdim=True) / (there.sum(0, keepdim=True) + DAMPING)
        user = ((x - mean - item) * there).sum(1, keepdim=True) / (there.sum(1, keepdim=True) + DAMPING)
    error = ((mean + user + item).clamp(1, 5) - test.y)[test.asked]
    return float(error.square().mean().sqrt())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    try:
        data: Any = dc.load_data("movielens-100k")
    except DataError as error:
        print(f"skipped: {error}")
        return
    print(f"biases of users and items: RMSE {biases(data.test):.4f} on {data.test.weight} ratings")
    found = []
    for seed in range(arguments.seeds):
        torch.manual_seed(seed)
        model = dc.find("ratings_rbm")(**data.sizes, units=arguments.units)
        found.append(dc.fit(model, data, quiet=True, epochs=arguments.epochs, seed=seed).test["rmse"])
        print(f"ratings_rbm, {arguments.units} units, seed {seed}: RMSE {found[-1]:.4f}", flush=True)
    print(f"mean of {len(found)} seeds: {statistics.mean(found):.4f}")


if __name__ == "__main__":
    main()
