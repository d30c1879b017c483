"""Ratings of MovieLens 100K, split u1, predicted by ratings_rbm and by the biases of users and items.

    python benchmarks/ratings.py [--part both] [--epochs 50] [--units 100] [--seeds 1] [--rounds 10]

The part ``speed`` compares an epoch of learning, in processor time and one thread, with a masked loop in torch that
computes all ratings of all items, those that are missing too, by the same rule, batches and optimizer. Epochs are
interleaved; ours is there twice, as a control.

The biases are fitted in turn with five ratings of damping; the machine predicts by the exact expectation given all
ratings in u1.base. The files are not passed on: docs/data.md says where they belong.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from side_by_side import interleaved, table
from torch import Tensor

import deepcanon as dc
from deepcanon.core import DataError, HeldOut, Incomplete

DAMPING, ROUNDS = 5.0, 20
BATCH, LR, COST = 100, 0.01, 1e-4


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


def ours(x: Tensor, units: int) -> Callable[[], None]:
    model: Any = dc.find("ratings_rbm")(features=x.shape[1], ratings=5, units=units, weight_cost=COST)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, fused=True)

    def epoch() -> None:
        for index in torch.randperm(len(x)).split(BATCH):
            model.gradient(Incomplete(x.index_select(0, index)))
            optimizer.step()

    return epoch


def dense(x: Tensor, units: int) -> Callable[[], None]:
    """Contrastive divergence on one-hot ratings of all items, with those that are missing masked out."""
    items = x.shape[1]
    weight, visible, hidden = 0.01 * torch.randn(5 * items, units), torch.zeros(5 * items), torch.zeros(units)
    parameters = [weight, visible, hidden]
    optimizer = torch.optim.Adam(parameters, lr=LR, fused=True)
    there = ~x.isnan()
    codes = torch.nn.functional.one_hot(x.nan_to_num(1.0).long() - 1, 5).float() * there.unsqueeze(2)
    rows = codes.flatten(1)

    def epoch() -> None:
        for index in torch.randperm(len(x)).split(BATCH):
            v, mask = rows[index], there[index].unsqueeze(2)
            on = (v @ weight + hidden).sigmoid()
            shares = (on.bernoulli() @ weight.T + visible).view(-1, items, 5).softmax(2)
            drawn = shares.view(-1, 5).multinomial(1).view(-1, items)
            chains = (torch.nn.functional.one_hot(drawn, 5) * mask).float().flatten(1)
            on_chains, count = (chains @ weight + hidden).sigmoid(), mask.sum()
            weight.grad = (chains.T @ on_chains - v.T @ on) / count + COST * weight
            visible.grad = (chains - v).sum(0) / count
            hidden.grad = (on_chains - on).sum(0) / count
            optimizer.step()

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--part", choices=["quality", "speed", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=10, help="interleaved epochs of each candidate")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    try:
        data: Any = dc.load_data("movielens-100k")
    except DataError as error:
        print(f"skipped: {error}")
        return
    if arguments.part != "quality":
        x, units = data.train.x, arguments.units
        candidates = {"deepcanon": ours(x, units), "dense and masked": dense(x, units), "control": ours(x, units)}
        table(
            f"an epoch of {data.train.weight:,} ratings, {units} units, processor time",
            interleaved(candidates, arguments.rounds, clock=time.process_time),
            "deepcanon",
        )
    if arguments.part == "speed":
        return
    print(f"biases of users and items: RMSE {biases(data.test):.4f} on {data.test.metric_weight} ratings")
    found = []
    for seed in range(arguments.seeds):
        torch.manual_seed(seed)
        model = dc.find("ratings_rbm")(**data.sizes, units=arguments.units)
        found.append(dc.fit(model, data, quiet=True, epochs=arguments.epochs, seed=seed).test["rmse"])
        print(f"ratings_rbm, {arguments.units} units, seed {seed}: RMSE {found[-1]:.4f}", flush=True)
    print(f"mean of {len(found)} seeds: {statistics.mean(found):.4f}")


if __name__ == "__main__":
    main()
