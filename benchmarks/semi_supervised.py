"""Semi-supervised methods compared with supervised baselines on few labels, over paired seeds.

    python benchmarks/semi_supervised.py --data moons:labels=6 --seeds 20
    python benchmarks/semi_supervised.py --data digits:labels=40 --seeds 20
    python benchmarks/semi_supervised.py --data digits:labels=40 --method fixmatch --seeds 20 --recipe

Each seed decides which labels stay, the initial weights and the order of the examples, alike for all; a gain is the
mean of the differences between a method and the classifier that learns from the labels alone with the same
augmentation, with its standard error. Settings were fixed on seeds from 100 on. Every seed is shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from deepcanon.catalogue import find
from deepcanon.core import Blueprint
from deepcanon.data import Dataset, load_data
from deepcanon.runs.label_baselines import label_spreading
from deepcanon.train import fit
from deepcanon.train.settings import resolve_settings

METHODS = ("pseudo_label", "pi_model", "mean_teacher", "mixmatch", "distribution_alignment", "remixmatch", "fixmatch")
SPREADING = "LabelSpreading (scikit-learn)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="moons:labels=6")
    parser.add_argument("--method", choices=METHODS, action="append", help="one or several; all unless given")
    parser.add_argument("--model", default="mlp", help="the classifier: mlp has two hidden layers of 64 units")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--recipe", action="store_true", help="train by the method's recipe, not by --steps and --lr")
    parser.add_argument("--argument", action="append", default=[], help="of the methods, as strong=0.25")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    given = {name: float(value) for name, value in (pair.split("=") for pair in asked.argument)}
    settings: dict[str, Any] = {} if asked.recipe else {"steps": asked.steps, "lr": asked.lr}
    methods = tuple(asked.method or METHODS)
    scores: dict[str, list[float]] = {}
    for seed in range(asked.first, asked.first + asked.seeds):
        for name, accuracy in one(asked.data, methods, asked.model, given, seed, settings).items():
            scores.setdefault(name, []).append(100 * accuracy)
    length = "by their recipes" if asked.recipe else f"{asked.steps} steps"
    print(
        f"{asked.data}, {asked.model}, {length}, seeds {asked.first} to {asked.first + asked.seeds - 1}, accuracy in %"
    )
    for name, values in scores.items():
        each = np.array(values)
        print(f"{name:32s} {each.mean():5.1f} ± {each.std(ddof=1):4.1f}   {' '.join(f'{one:5.1f}' for one in each)}")
    for method in methods:
        for name in (alone(method), SPREADING):
            gains = np.array(scores[method]) - np.array(scores[name])
            error = gains.std(ddof=1) / np.sqrt(len(gains))
            better = f"better with {(gains > 0).sum()} of {len(gains)} seeds"
            print(f"{method:24s} over {name:32s} {gains.mean():+5.1f} ± {error:3.1f} (standard error), {better}")


def alone(method: str) -> str:
    """The name of the classifier that learns from the labels alone, with the augmentation of the method."""
    augmentation = find(method).supervised["labeled"]  # type: ignore[attr-defined]
    return f"supervised, {augmentation} augmentation"


def one(
    data: str, methods: tuple[str, ...], wrapped: str, given: Mapping[str, Any], seed: int, changes: Mapping[str, Any]
) -> dict[str, float]:
    """The accuracies of the methods and of their baselines with one seed."""
    few = load_data(f"{data},seed={seed}")
    inner = Blueprint(find(wrapped), {"hidden": (64, 64)} if wrapped == "mlp" else {})
    first = find(methods[0])
    found = {"supervised": trained(Blueprint(first, {"model": inner, **first.null}), few, seed, changes)}  # type: ignore[attr-defined]
    for method in methods:
        if alone(method) not in found:
            cls = find(method)
            asked = Blueprint(cls, {"model": inner, **given, **cls.supervised})  # type: ignore[attr-defined]
            found[alone(method)] = trained(asked, few, seed, changes)
    test = few.split("test")
    spread = label_spreading(few)(test.x).argmax(-1)
    found[SPREADING] = (spread == test.y).double().mean().item()
    for method in methods:
        found[method] = trained(Blueprint(find(method), {"model": inner, **given}), few, seed, changes)
    return found


def trained(asked: Blueprint, data: Dataset[Any], seed: int, changes: Mapping[str, Any]) -> float:
    """The test accuracy of a model trained from the start that the seed gives."""
    torch.manual_seed(seed)
    model = asked.build(data.sizes, data.name)
    settings = resolve_settings(model.recipe, seed=seed, **changes)
    return fit(model, data, quiet=True, **settings).test["accuracy"]


if __name__ == "__main__":
    main()
