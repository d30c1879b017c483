"""Semi-supervised methods compared with supervised baselines on few labels, over paired seeds.

    python benchmarks/semi_supervised.py --data moons:labels=6 --seeds 10

Each seed decides which labels stay, the initial weights and the order of the examples, alike for all. The settings
were fixed on seeds from 100 on; the digits get fewer steps than they could use.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from deepcanon.core import Blueprint, Model
from deepcanon.data import load_data
from deepcanon.methods.fixmatch import FixMatch
from deepcanon.methods.pi_model import PiModel
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.runs.baselines import baselines
from deepcanon.train import fit
from deepcanon.train.settings import resolve_settings

METHODS: dict[str, type[Model[Any]]] = {"pi_model": PiModel, "fixmatch": FixMatch}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="moons:labels=6")
    parser.add_argument("--method", choices=METHODS, default="pi_model")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--argument", action="append", default=[], help="of the method, as strong=0.25")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    given = {name: float(value) for name, value in (pair.split("=") for pair in asked.argument)}
    scores: dict[str, list[float]] = {}
    for seed in range(asked.first, asked.first + asked.seeds):
        for name, accuracy in one(asked.data, METHODS[asked.method], given, seed, asked.steps, asked.lr).items():
            scores.setdefault(name, []).append(accuracy)
    print(
        f"{asked.data}, {asked.steps} steps, seeds {asked.first} to {asked.first + asked.seeds - 1}, test accuracy in %"
    )
    for name, values in scores.items():
        each = 100 * np.array(values)
        print(
            f"{name:32s} {each.mean():5.1f} ± {each.std(ddof=1):4.1f}   {' '.join(f'{value:5.1f}' for value in each)}"
        )


def one(
    data: str, method: type[Model[Any]], given: Mapping[str, Any], seed: int, steps: int, lr: float
) -> dict[str, float]:
    """The accuracies of all baselines with one seed."""
    few = load_data(f"{data},seed={seed}")

    asked = Blueprint(method, {"model": Blueprint(MLP, {"hidden": (64, 64)}), **given})
    torch.manual_seed(seed)
    model = asked.build(few.sizes, few.name)
    settings = resolve_settings(model.recipe, steps=steps, lr=lr, seed=seed)
    fit(model, few, quiet=True, **settings)
    return {baseline.name: baseline.accuracy for baseline in baselines(model, asked, few, settings)}


if __name__ == "__main__":
    main()
