"""Accuracy of the graph classifier in ten-fold cross-validation, with its spread over the folds, on one thread.

    python benchmarks/graph_folds.py [--data proteins|mutag] [--layer gin|gcn] [--readout sum|mean|max]
                                     [--epochs N] [--pyg] [--json results.json]

The folds are stratified by class and fixed. Every fold is trained on the other nine with the recipe as it comes and
tested with the last weights: no epoch is chosen by the test fold, which makes published accuracies higher than they
should be (Errica et al., 2020, https://arxiv.org/abs/1912.09893, who find 73.3 +- 4.0 for GIN on PROTEINS). The
majority class and a logistic regression on the mean of the nodes' features and degrees stand next to it. ``--pyg`` also
trains the same network of PyTorch Geometric's GIN layers on the same folds with the same settings, in its own loop.

The zips of the TU collection are looked for in $DEEPCANON_DATA.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

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


def of_pyg(train: LabeledGraphs, test: LabeledGraphs, epochs: int, seed: int) -> float:
    """The accuracy of the same network in PyTorch Geometric: GIN layers, all of them read out by sums."""
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GINConv, GINEConv, global_add_pool

    edges = train.graph.edge_features

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (train.x.shape[1], 32, 32, 32)
            parts = [nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b)) for a, b in pairwise(widths)]
            self.convs = nn.ModuleList(
                GINConv(part, train_eps=True)
                if edges is None
                else GINEConv(part, train_eps=True, edge_dim=edges.shape[1])
                for part in parts
            )
            self.head = nn.Linear(96, int(train.y.max()) + 1)

        def forward(self, some: Any) -> Tensor:
            x, read = some.x, []
            for conv in self.convs:
                x = (conv(x, some.edge_index) if edges is None else conv(x, some.edge_index, some.edge_attr)).relu()
                read.append(global_add_pool(x, some.batch))
            logits: Tensor = self.head(torch.cat(read, 1))
            return logits

    def listed(batch: LabeledGraphs) -> list[Any]:
        parts = [batch.select(torch.tensor([i])) for i in range(len(batch))]
        return [
            Data(x=each.x, edge_index=each.graph.edge_index, edge_attr=each.graph.edge_features, y=each.y)
            for each in parts
        ]

    torch.manual_seed(seed)
    model, loader = Net(), DataLoader(listed(train), batch_size=32, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for _ in range(epochs):
        for some in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(some), some.y).backward()
            optimizer.step()
            schedule.step()
    model.eval()
    (whole,) = DataLoader(listed(test), batch_size=len(test))
    with torch.no_grad():
        return float((model(whole).argmax(1) == whole.y).double().mean())


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
    parser.add_argument("--pyg", action="store_true", help="also the same network of PyTorch Geometric (gin, sum)")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    entry = ENTRIES[arguments.data]
    whole = read(entry)
    if arguments.pyg and (arguments.layer, arguments.readout) != ("gin", "sum"):
        parser.error("--pyg is the network of gin layers and sums; leave out --layer and --readout")
    chosen: dict[str, list[float]] = {"graph_classifier": [], "majority": [], "no messages": []}
    if arguments.pyg:
        chosen["PyG"] = []
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
        if arguments.pyg:
            chosen["PyG"].append(of_pyg(train, test, arguments.epochs or model.recipe.epochs, number))
        print(f"  fold {number}: {result.test['accuracy']:.3f} (training {result.train['accuracy']:.3f})", flush=True)
    print(f"{entry.name}, {arguments.layer}, {arguments.readout}, {FOLDS} folds")
    numbers = {name: summary(name, right) for name, right in chosen.items()}
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
