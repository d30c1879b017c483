"""Semi-supervised methods compared with supervised baselines on few labels, over paired seeds.

    python benchmarks/semi_supervised.py --data moons:labels=6 --seeds 10
    python benchmarks/semi_supervised.py --data digits:labels=40 --model cnn --method mixmatch --seeds 20 --lr 1e-3

Each seed decides which labels stay, the initial weights and the order of the examples, alike for all; a gain is the
mean of the differences between the method and a baseline, with its standard error. The settings were fixed on seeds
from 100 on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from deepcanon.catalogue import find
from deepcanon.core import Blueprint, Model
from deepcanon.data import load_data
from deepcanon.runs.label_baselines import baselines
from deepcanon.train import fit
from deepcanon.train.settings import resolve_settings

METHODS = ("pseudo_label", "pi_model", "mean_teacher", "mixmatch", "distribution_alignment", "remixmatch", "fixmatch")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="moons:labels=6")
    parser.add_argument("--method", choices=METHODS, default="pi_model")
    parser.add_argument("--model", default="mlp", help="the classifier: mlp has two hidden layers of 64 units")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--recipe", action="store_true", help="train by the method's recipe, not by --steps and --lr")
    parser.add_argument("--argument", action="append", default=[], help="of the method, as strong=0.25")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    given = {name: float(value) for name, value in (pair.split("=") for pair in asked.argument)}
    settings: dict[str, Any] = {} if asked.recipe else {"steps": asked.steps, "lr": asked.lr}
    scores: dict[str, list[float]] = {}
    for seed in range(asked.first, asked.first + asked.seeds):
        for name, accuracy in one(asked.data, find(asked.method), asked.model, given, seed, settings).items():
            scores.setdefault(name, []).append(accuracy)
    length = "by its recipe" if asked.recipe else f"{asked.steps} steps"
    print(f"{asked.data}, {length}, seeds {asked.first} to {asked.first + asked.seeds - 1}, test accuracy in %")
    for name, values in scores.items():
        each = 100 * np.array(values)
        print(
            f"{name:32s} {each.mean():5.1f} ± {each.std(ddof=1):4.1f}   {' '.join(f'{value:5.1f}' for value in each)}"
        )
    ours = 100 * np.array(scores.pop(asked.method))
    for name, values in scores.items():
        gains = ours - 100 * np.array(values)
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        better = f"better with {(gains > 0).sum()} of {len(gains)} seeds"
        print(f"gain over {name:32s} {gains.mean():+5.1f} ± {error:3.1f} (standard error), {better}")


def one(
    data: str, method: type[Model[Any]], wrapped: str, given: Mapping[str, Any], seed: int, changes: Mapping[str, Any]
) -> dict[str, float]:
    """The accuracies of all baselines with one seed."""
    few = load_data(f"{data},seed={seed}")

    inner = Blueprint(find(wrapped), {"hidden": (64, 64)} if wrapped == "mlp" else {})
    asked = Blueprint(method, {"model": inner, **given})
    torch.manual_seed(seed)
    model = asked.build(few.sizes, few.name)
    settings = resolve_settings(model.recipe, seed=seed, **changes)
    fit(model, few, quiet=True, **settings)
    return {baseline.name: baseline.accuracy for baseline in baselines(model, asked, few, settings)}


if __name__ == "__main__":
    main()
