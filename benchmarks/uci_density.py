"""Densities of the UCI regression sets: MAF and RealNVP next to zuko's on the same splits, by held-out likelihood.

    python benchmarks/uci_density.py [--sets power kin8nm ...] [--splits 3] [--steps 1500]

The columns that regression takes as features are modeled, standardized by the training rows. All flows have five masked
networks, or eight couplings, of two hidden layers of 64; all take the same steps of fused Adam on batches of 128 with
a cosine, and of the RATES the one whose validation likelihood is best; the weights are those of the best validation
likelihood on the way, looked at every fifty steps. A Gaussian of full covariance is what needs no training. Log-
likelihoods are in nats per row of standardized columns, higher is better: mean +- standard error over the splits. A
column of few distinct values has no density, and is left out. The sets are those that `deepcanon data` lists as
uci:power and so on; the tables of the MAF paper (Papamakarios et al., 2017) are of other UCI sets, of millions of
rows, which are not at hand.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import copy
import math
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

import deepcanon as dc
from deepcanon.core import Batch

HIDDEN, BATCH, EVERY = (64, 64), 128, 50
RATES = (1e-3, 5e-3)
DISTINCT = 30
"""A column with fewer different values is not modeled."""

Flow = tuple[nn.Module, Callable[[Tensor], Tensor]]


def ours(name: str, x: Tensor) -> Flow:
    model: Any = dc.find(name)(features=x.shape[1], hidden=HIDDEN)
    model.prepare([Batch(x)])
    return model, model.log_prob


def of_zuko(name: str, x: Tensor) -> Flow:
    import zuko

    kind, count = (zuko.flows.MAF, 5) if name == "maf" else (zuko.flows.RealNVP, 8)
    flow = kind(x.shape[1], transforms=count, hidden_features=HIDDEN)
    return flow, lambda rows: flow().log_prob(rows)


CANDIDATES: dict[str, Callable[[Tensor], Flow]] = {
    "maf": lambda x: ours("maf", x),
    "zuko MAF": lambda x: of_zuko("maf", x),
    "realnvp": lambda x: ours("realnvp", x),
    "zuko RealNVP": lambda x: of_zuko("realnvp", x),
}


def fitted(make: Callable[[Tensor], Flow], parts: list[Tensor], rate: float, steps: int, seed: int) -> list[float]:
    """The mean log-likelihoods of validation and test rows by the weights that are best on validation rows."""
    train, valid, test = parts
    torch.manual_seed(seed)
    module, log_prob = make(train)
    adam = torch.optim.Adam(module.parameters(), lr=rate, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    best, kept = -math.inf, copy.deepcopy(module.state_dict())
    for step in range(1, steps + 1):
        adam.zero_grad()
        (-log_prob(train[torch.randint(len(train), (BATCH,))]).mean()).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 10.0)
        adam.step()
        decay.step()
        if step % EVERY == 0:
            with torch.no_grad():
                found = float(log_prob(valid).mean())
            if found > best:
                best, kept = found, copy.deepcopy(module.state_dict())
    module.load_state_dict(kept)
    with torch.no_grad():
        return [best, float(log_prob(test).mean())]


def split_of(name: str, number: int) -> list[Tensor]:
    """The columns that have a density, of training, validation and test rows, standardized."""
    data = dc.load_data(f"uci:{name}:split={number}")
    parts = [data.split(part).x for part in ("train", "valid", "test")]
    columns = [i for i in range(parts[0].shape[1]) if len(parts[0][:, i].unique()) >= DISTINCT]
    mean, std = parts[0][:, columns].mean(0), parts[0][:, columns].std(0)
    return [(part[:, columns] - mean) / std for part in parts]


def gaussian(parts: list[Tensor]) -> float:
    train, _, test = (part.double() for part in parts)
    return float(MultivariateNormal(train.mean(0), train.T.cov()).log_prob(test).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--sets", nargs="+", default=["power", "kin8nm"])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.sets:
        splits = [split_of(name, number) for number in range(arguments.splits)]
        print(f"{name}: {splits[0][0].shape[1]} columns, {len(splits[0][0])} training rows, {arguments.splits} splits")
        results = {"Gaussian": [gaussian(parts) for parts in splits]}
        for candidate, make in CANDIDATES.items():
            results[candidate] = [
                max(fitted(make, parts, rate, arguments.steps, seed) for rate in RATES)[1]
                for seed, parts in enumerate(splits)
            ]
        for candidate, found in results.items():
            error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else math.nan
            print(f"  {candidate:14} {statistics.mean(found):8.3f} +- {error:.3f}", flush=True)


if __name__ == "__main__":
    main()
