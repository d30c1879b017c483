"""Accuracy of the graph classifier in ten-fold cross-validation, with its spread over the folds, on one thread.

    python benchmarks/graph_folds.py [--data proteins|mutag] [--layer gin|gcn] [--readout sum|mean|max]
                                     [--epochs N] [--json results.json]

The folds are stratified by class and fixed. Every fold is trained on the other nine with the recipe as it comes and
tested with the last weights: no epoch is chosen by the test fold, which makes published accuracies higher than they
should be (Errica et al., 2020, https://arxiv.org/abs/1912.09893, who find 73.3 +- 4.0 for GIN on PROTEINS). The
majority class and a logistic regression on the mean of the nodes' features and degrees stand next to it.

The zips of the TU collection are looked for in $DEEPCANON_DATA.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import deepcanon as dc
from deepcanon.core import LabeledGraphs
from deepcanon.data.sets.tudataset import MUTAG, PROTEINS, read
from deepcanon.data.split import stratified_order
from deepcanon.nn import segment_mean

FOLDS = 10
ENTRIES = {"proteins": PROTEINS, "mutag": MUTAG}


def folds(y: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The rows of each fold, stratified: every tenth of an order in which the classes are spread evenly."""
    order = stratified_order(y, seed=0)
    return [np.sort(order[fold::FOLDS]) for fold in range(FOLDS)]


def described(batch: LabeledGraphs) -> NDArray[np.float64]:
    """The mean over the nodes of their features and degrees, and the number of nodes: what needs no messages."""
    rows = torch.cat([batch.x, batch.graph.degrees().unsqueeze(1)], 1)
    means = segment_mean(rows, batch.graph.membership(), len(batch))
    return np.column_stack([means.numpy(), np.log(batch.graph.parts)])


def summary(name: str, right: Sequence[float]) -> dict[str, float]:
    mean, spread = 100 * statistics.mean(right), 100 * statistics.stdev(right)
    print(f"  {name:24} {mean:5.1f} +- {spread:.1f} %")
    return {"accuracy": round(mean, 2), "spread": round(spread, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data", choices=ENTRIES, default="proteins")
    parser.add_argument("--layer", choices=("gin", "gcn"), default="gin")
    parser.add_argument("--readout", choices=("sum", "mean", "max"), default="sum")
    parser.add_argument("--epochs", type=int, help="by default, those of the recipe")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    entry = ENTRIES[arguments.data]
    whole = read(entry)
    chosen: dict[str, list[float]] = {"graph_classifier": [], "majority": [], "no messages": []}
    model_type: Any = dc.find("graph_classifier")
    sizes = {name: size for name, size in entry.sizes.items() if name != "edge_features" or arguments.layer == "gin"}
    settings: Any = {} if arguments.epochs is None else {"epochs": arguments.epochs}
    for number, held_out in enumerate(folds(whole.y.numpy())):
        rest = np.setdiff1d(np.arange(len(whole)), held_out)
        train, test = whole.select(torch.from_numpy(rest)), whole.select(torch.from_numpy(held_out))
        data = dc.Dataset(name=entry.name, kind="graphs", train=train, test=test, sizes=entry.sizes, shape=entry.shape)
        torch.manual_seed(number)
        model = model_type(**sizes, layer=arguments.layer, readout=arguments.readout)
        result = dc.fit(model, data, seed=number, quiet=True, **settings)
        chosen["graph_classifier"].append(result.test["accuracy"])
        chosen["majority"].append(float((test.y == train.y.mode().values).double().mean()))
        plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(described(train), train.y.numpy())
        chosen["no messages"].append(float(plain.score(described(test), test.y.numpy())))
        print(f"  fold {number}: {result.test['accuracy']:.3f} (training {result.train['accuracy']:.3f})", flush=True)
    print(f"{entry.name}, {arguments.layer}, {arguments.readout}, {FOLDS} folds")
    numbers = {name: summary(name, right) for name, right in chosen.items()}
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
