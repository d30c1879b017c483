"""Accuracy of graph models: nodes and links of Cora, and the long-range task, on one thread.

    python benchmarks/cora.py [--part nodes|links|link_settings|long_range] [--seeds 10] [--json results.json]

``nodes``: test accuracy on Cora's public split of gcn, graph_attention and sage with their recipes, last weights.

``links``: the area under the ROC curve of hidden links of Cora: 85 % of the edges are known, 5 % are for validation and
10 % for the test, with as many pairs of nodes that no edge joins, split as unordered pairs, so that no pair of one
split is in another in either direction. Ours is link_predictor with its recipe, next to it PyTorch Geometric's GAE as
its example trains it (two GCN layers of 32 and 16, 200 epochs, new negatives in every epoch), on the same edges.

``link_settings``: the same area of validation pairs, by which the recipe was chosen, of splits by seeds from 100 on, so
that no test pair of ``links`` is looked at.

``long_range``: test accuracy on ring-of-cliques, where a node is to tell the color of the clique across its ring, of
graph_transformer with its recipe, without positions, and of gcn with one hidden layer and with eleven.

Cora is looked for in $DEEPCANON_DATA. PyG needs ``pip install -c constraints.txt -e '.[bench]'``.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Graph, LabeledPairs
from deepcanon.data.graphs.graph_links import strangers
from deepcanon.data.split import cut

Numbers = dict[str, Any]


def summary(name: str, values: Sequence[float]) -> Numbers:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    each = " ".join(f"{100 * value:.1f}" for value in values)
    print(f"  {name:44} {100 * statistics.mean(values):6.2f} +- {100 * spread:.2f} %, seed by seed {each}", flush=True)
    return {"mean": statistics.mean(values), "deviation": spread, "seeds": list(values)}


def trained(name: str, data: Any, seed: int, settings: Numbers | None = None, **arguments: Any) -> Any:
    """The result of a training by the recipe, or with some other settings, and the model with its last weights."""
    torch.manual_seed(seed)
    model = dc.find(name)(**{size: data.sizes[size] for size in ("features", "classes")}, **arguments)
    return dc.fit(model, data, seed=seed, quiet=True, keep_weights="last", **settings or {}), model


def nodes(seeds: int) -> Numbers:
    """Classes of nodes."""
    data, found = dc.load_data("cora"), {}
    for name in ("gcn", "graph_attention", "sage"):
        found[name] = summary(name, [trained(name, data, seed)[0].test["accuracy"] for seed in range(seeds)])
    return found


def hidden_links(seed: int) -> Any:
    """Cora's edges, split as unordered pairs."""
    batch = dc.load_data("cora").train
    x, graph = batch.x.to_dense(), batch.graph
    random = np.random.RandomState(seed)
    both = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy()
    edges = both[:, random.permutation(both.shape[1])]
    apart = strangers(random, edges, graph.nodes)
    valid, test = round(0.05 * edges.shape[1]), round(0.1 * edges.shape[1])
    parts = cut(np.arange(edges.shape[1]), (edges.shape[1] - valid - test, valid, test))
    known = torch.from_numpy(edges)[:, parts[0]]
    shown = Graph(torch.cat([known, known.flip(0)], 1), graph.nodes)

    def pairs(rows: Tensor) -> LabeledPairs:
        ends = torch.cat([torch.from_numpy(apart)[:, rows], torch.from_numpy(edges)[:, rows]], 1)
        return LabeledPairs(x=x, y=torch.arange(2).repeat_interleave(len(rows)), graph=shown, pairs=ends)

    sizes, splits = {"features": x.shape[1], "classes": 2}, [pairs(rows) for rows in parts]
    return dc.Dataset(
        name="cora links", kind="graphs", train=splits[0], valid=splits[1], test=splits[2], sizes=sizes, shape=(1433,)
    )


def of_gae(data: Any, seed: int, epochs: int = 200) -> float:
    """The area under the ROC curve of PyG's graph autoencoder."""
    from torch_geometric.nn import GAE, GCNConv

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = GCNConv(1433, 32, cached=True), GCNConv(32, 16, cached=True)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            z: Tensor = self.last(self.first(x, edges).relu(), edges)
            return z

    torch.manual_seed(seed)
    model = GAE(Encoder())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    known, test = data.train.graph.edge_index, data.test
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        model.recon_loss(model.encode(data.train.x, known), known).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return float(roc_auc_score(test.y, model.decode(model.encode(test.x, known), test.pairs)))


def area(model: Any, pairs: LabeledPairs) -> float:
    """The area under the ROC curve."""
    return float(roc_auc_score(pairs.y, model.eval().predict(*pairs.inputs, how="mean")[:, 1]))


def links(seeds: int) -> Numbers:
    """Links between nodes."""
    ours, theirs = [], []
    for seed in range(seeds):
        data = hidden_links(seed)
        _, model = trained("link_predictor", data, seed)
        ours.append(area(model, data.test))
        theirs.append(of_gae(data, seed))
    return {"link_predictor": summary("link_predictor, AUC", ours), "PyG GAE": summary("PyG GAE, AUC", theirs)}


def link_settings(seeds: int) -> Numbers:
    """Settings of the link predictor, by validation pairs."""
    found = {}
    for dropout in (0.0, 0.5):
        for decay in (0.0, 5e-4):
            areas = []
            for seed in range(100, 100 + seeds):
                data = hidden_links(seed)
                _, model = trained(
                    "link_predictor", data, seed, {"optimizer": f"adam:weight_decay={decay}"}, dropout=dropout
                )
                areas.append(area(model, data.valid))
            name = f"dropout {dropout}, weight decay {decay:g}"
            found[name] = summary(name, areas)
    return found


def long_range(seeds: int) -> Numbers:
    """The color across a ring of cliques."""
    data, found = dc.load_data("ring-of-cliques"), {}
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "gcn, 1 hidden layer": ("gcn", {}),
        "gcn, 11 hidden layers of 32": ("gcn", {"hidden": (32,) * 11, "dropout": 0.0}),
        "graph_transformer": ("graph_transformer", {}),
        "graph_transformer without positions": ("graph_transformer", {"positions": 0}),
    }
    for label, (name, arguments) in cases.items():
        right = [trained(name, data, seed, **arguments)[0].test["accuracy"] for seed in range(seeds)]
        found[label] = summary(label, right)
    return found


PARTS: dict[str, Callable[[int], Numbers]] = {
    "nodes": nodes,
    "links": links,
    "link_settings": link_settings,
    "long_range": long_range,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--part", choices=PARTS, help="only this part")
    parser.add_argument("--seeds", type=int, default=10, help="trainings of each model")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = PARTS if arguments.part is None else {arguments.part: PARTS[arguments.part]}
    numbers: Numbers = {}
    for name, part in chosen.items():
        print(name, flush=True)
        numbers[name] = part(arguments.seeds)
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
