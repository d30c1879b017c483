"""Methods that need few labels, or none, next to what they are to beat on the digits, over paired seeds.

    python benchmarks/few_labels.py [--part weak|distilled|probe|pretrained] [--seeds 5] [--json results.json]

``weak``: an mlp that learns from the votes of six planted sources, combined by the label model and by the majority.
``distilled``: an mlp of 16 units that learns from 60 labels alone, and with the predictions of a larger one that has
seen all of them. ``probe``: a logistic regression of 50 labels on the features that SimCLR has learned without labels,
on those of the same encoder before it, and on the pixels. ``pretrained``: a cnn that learns from 40 labels in 200
steps, from scratch and after 200 steps without labels, by the contrastive task and by an autoencoder's.

Test accuracies; each seed decides the labels that are seen, the initial weights and the order of the examples.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

import deepcanon as dc
from deepcanon.methods.distillation import Distillation
from deepcanon.methods.pretrained import Pretrained
from deepcanon.methods.simclr import SimCLR
from deepcanon.methods.weak_supervision import WeakSupervision
from deepcanon.models.convolutional.cnn import CNN
from deepcanon.models.feedforward.mlp import MLP

Accuracies = dict[str, float]


def weak(seed: int) -> Accuracies:
    data, found = dc.load_data(f"digits:votes=6,seed={seed}"), {}
    for labels in ("label model", "majority"):
        torch.manual_seed(seed)
        inner = MLP(features=64, classes=10, hidden=(64,))
        method = WeakSupervision(inner, sources=6, labels=labels)
        found[labels] = accuracy(method, data, seed, epochs=15)
    return found


def distilled(seed: int) -> Accuracies:
    data = dc.load_data("digits")
    test = data.split("test")
    torch.manual_seed(seed)
    teacher = MLP(features=64, classes=10, hidden=(128,))
    found = {"teacher": accuracy(teacher, data, seed, epochs=15)}
    rows = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(seed))[:60]
    few = dc.data.of(data.train.x[rows], data.train.y[rows], test=(test.x, test.y))
    for name, weight in (("student", 0.9), ("alone", 0.0)):
        torch.manual_seed(seed)
        method = Distillation(MLP(features=64, classes=10, hidden=(16,)), teacher, weight=weight, teaching=0.0)
        found[name] = accuracy(method, few, seed, steps=600, lr=3e-3)
    return {name: found[name] for name in ("student", "alone", "teacher")}


def probe(seed: int) -> Accuracies:
    data = dc.load_data("digits")
    train, test = data.split("train"), data.split("test")
    rows = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[:50]
    torch.manual_seed(seed)
    method: Any = SimCLR(CNN(channels=1, height=8, width=8, classes=10))

    def probed(features: Callable[[Any], Any]) -> float:
        few, all_of_test = features(train.x[rows]).numpy(), features(test.x).numpy()
        scale = few.std()
        fitted = LogisticRegression(max_iter=2000).fit(few / scale, train.y[rows].numpy())
        return float(fitted.score(all_of_test / scale, test.y.numpy()))

    untrained = probed(method.eval().encode)
    dc.fit(method, data, steps=300, seed=seed, quiet=True, evaluate=False)
    return {
        "SimCLR": probed(method.eval().encode),
        "pixels": probed(lambda x: x.flatten(1)),
        "random encoder": untrained,
    }


def pretrained(seed: int) -> Accuracies:
    few, found = dc.load_data(f"digits:labels=40,seed={seed}"), {}
    for name, task, share, steps in (
        ("contrastive", "contrastive", 0.5, 400),
        ("from scratch", "contrastive", 0.0, 200),
        ("autoencoder", "reconstruction", 0.5, 400),
    ):
        torch.manual_seed(seed)
        inner = CNN(channels=1, height=8, width=8, classes=10)
        method = Pretrained(inner, features=64, share=share, task=task)  # type: ignore[arg-type]
        found[name] = accuracy(method, few, seed, steps=steps, lr=2e-3, optimizer="adam", keep_weights="last")
    return found


def accuracy(model: Any, data: Any, seed: int, **settings: Any) -> float:
    return float(dc.fit(model, data, seed=seed, quiet=True, **settings).test["accuracy"])


PARTS: dict[str, Callable[[int], Accuracies]] = {
    "weak": weak,
    "distilled": distilled,
    "probe": probe,
    "pretrained": pretrained,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--part", choices=PARTS, help="only this part")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    numbers = {}
    for part in [asked.part] if asked.part else PARTS:
        each = [PARTS[part](seed) for seed in range(asked.seeds)]
        columns = {name: 100 * np.array([row[name] for row in each]) for name in each[0]}
        first, *others = columns
        print(f"{part}, test accuracy in %, seeds 0 to {asked.seeds - 1}")
        for name, values in columns.items():
            print(f"  {name:16} {values.mean():5.1f}   {' '.join(f'{value:5.1f}' for value in values)}")
        for name in others:
            gains = columns[first] - columns[name]
            error = gains.std(ddof=1) / np.sqrt(len(gains))
            won = f"better with {(gains > 0).sum()} of {len(gains)} seeds"
            print(f"  {first} over {name}: {gains.mean():+.1f} ± {error:.1f} (standard error), {won}", flush=True)
        numbers[part] = {name: values.tolist() for name, values in columns.items()}
    if asked.json:
        asked.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
