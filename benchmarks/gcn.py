"""The graph convolution and the network made of it compared with PyTorch Geometric's, on one thread.

    python benchmarks/gcn.py [--part layer|epoch|accuracy] [--rounds 9] [--json results.json]

``layer``: forwards and backwards, 64 features in and out, on a random graph of 100,000 nodes and 1,000,000 directed
edges, as an inner layer (its input requires grad) and as a first one. PyG's GCNConv is given edges as it comes, edges
with its cache, and the normalized adjacency as a CSR matrix, which is its fastest input here.

``epoch``: a full-batch step on Cora with the settings of Kipf and Welling. Ours is an epoch of the Trainer as it comes:
the step, the log with gradient norms, and the evaluation on the validation split. PyG's is the bare step of its
documentation, and the step with one evaluation; it is given dense features, as its own Planetoid gives them. A bare
loop around our model shows what the Trainer adds.

``accuracy``: test accuracy of ten seeds of the recipe on Cora's public split, with the last weights.

Cora is looked for in $DEEPCANON_DATA. PyG needs ``pip install -c constraints.txt -e '.[bench]'``.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import statistics
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from layer_timing import EDGES, NODES, WIDTH, Numbers, as_csr, both_ways, random_graph, run_parts
from relay import STEPS, Candidate, race, ratio
from side_by_side import interleaved, table
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import GraphBatch, Terms
from deepcanon.nn.graph_conv import GraphConv
from deepcanon.train import Observer, Trainer
from deepcanon.train.settings import resolve_settings

SEEDS = 10
FOREVER = 100_000
GOAL = {"PyG GCNConv, edges": 8.0, "PyG GCNConv, CSR": 2.0, "PyG, step": 10.0}
Lap = Callable[[], None]


def layer(rounds: int) -> Numbers:
    """One layer, forwards and backwards."""
    from torch_geometric.nn import GCNConv

    random = torch.Generator().manual_seed(0)
    graph = random_graph(random)
    ours = GraphConv(WIDTH, WIDTH)
    theirs, cached, given_csr = (
        GCNConv(WIDTH, WIDTH),
        GCNConv(WIDTH, WIDTH, cached=True),
        GCNConv(WIDTH, WIDTH, normalize=False),
    )
    csr = as_csr(graph.operator("gcn"))
    numbers: Numbers = {}
    for position, needs_grad in (("inner", True), ("first", False)):
        x = torch.randn(NODES, WIDTH, generator=random).requires_grad_(needs_grad)
        pull = torch.randn(NODES, WIDTH, generator=random)
        candidates = {
            "deepcanon": both_ways(ours, x, graph, pull),
            "PyG GCNConv, edges": both_ways(theirs, x, graph.edge_index, pull),
            "PyG GCNConv, edges, cached": both_ways(cached, x, graph.edge_index, pull),
            "PyG GCNConv, CSR": both_ways(given_csr, x, csr, pull),
        }
        title = f"{position} layer, {NODES:,} nodes, {EDGES:,} edges, {WIDTH} features"
        numbers[position] = _with_goals(table(title, interleaved(candidates, rounds, warm_up=1), "deepcanon"))
    return numbers


def cora() -> Any:
    return dc.load_data("cora")


def our_epochs(lap: Lap) -> None:
    """Epochs of the Trainer as it comes."""

    class Lapper(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            lap()

    data = cora()
    torch.manual_seed(0)
    model = dc.find("gcn")(**{name: data.sizes[name] for name in ("features", "classes")})
    Trainer(model, data, resolve_settings(model.recipe, epochs=FOREVER), quiet=True, observers=[Lapper()]).fit()


def our_steps(lap: Lap) -> None:
    """A bare loop around our model: the step alone."""
    data = cora()
    torch.manual_seed(0)
    model = dc.find("gcn")(**{name: data.sizes[name] for name in ("features", "classes")})
    optimizer = torch.optim.Adam(model.parameters(), lr=model.recipe.lr, fused=True)
    while True:
        optimizer.zero_grad()
        torch.stack(list(model.loss(data.train).values())).sum().backward()
        optimizer.step()
        lap()


def pyg(evaluated: bool) -> Callable[[Lap], None]:
    """The network of PyG's documentation with its loop."""

    def train(lap: Lap) -> None:
        from torch_geometric.nn import GCNConv

        data = cora()
        batch: GraphBatch = data.train
        x, edges = batch.x.to_dense(), batch.graph.edge_index

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.conv1, self.conv2 = GCNConv(x.shape[1], 16), GCNConv(16, len(data.labels))

            def forward(self, x: Tensor) -> Tensor:
                x = F.relu(self.conv1(F.dropout(x, training=self.training), edges))
                logits: Tensor = self.conv2(F.dropout(x, training=self.training), edges)
                return logits

        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.Adam(
            [{"params": model.conv1.parameters(), "weight_decay": 5e-4}, {"params": model.conv2.parameters()}], lr=0.01
        )
        while True:
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(x)[batch.mask], batch.y[batch.mask]).backward()
            optimizer.step()
            if evaluated:
                model.eval()
                with torch.no_grad():
                    float((model(x).argmax(-1) == batch.y)[data.valid.mask].float().mean())
            lap()

    return train


def epoch(rounds: int) -> Numbers:
    """Steps and epochs on Cora."""
    makers = {
        "deepcanon": our_epochs,
        "bare loop, our model": our_steps,
        "PyG, step": pyg(evaluated=False),
        "PyG, step and evaluation": pyg(evaluated=True),
    }
    candidates = {name: Candidate(name, maker) for name, maker in makers.items()}
    race(list(candidates.values()), rounds)
    numbers: Numbers = {}
    print("an epoch on Cora")
    for name, candidate in candidates.items():
        seconds, factor = statistics.median(candidate.blocks) / STEPS, ratio(candidate, candidates["deepcanon"])
        numbers[name] = {"milliseconds": round(1e3 * seconds, 3), "ours_faster_by": round(factor, 3)}
        print(f"  {name:32} {1e3 * seconds:10.2f} ms   deepcanon is faster by {factor:.2f}x")
    return _with_goals(numbers)


def accuracy(_: int) -> Numbers:
    """Test accuracy of the recipe on Cora."""
    data = cora()
    right, seconds = [], []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        model = dc.find("gcn")(**{name: data.sizes[name] for name in ("features", "classes")})
        result = dc.fit(model, data, seed=seed, quiet=True, keep_weights="last")
        right.append(result.test["accuracy"])
        seconds.append(result.seconds)
    mean, spread = statistics.mean(right), statistics.stdev(right)
    print(
        f"Cora, public split, {SEEDS} seeds, last weights: {mean:.2%} ± {spread:.2%} (goal: 81.0 %), "
        f"{statistics.median(seconds):.2f} s each"
    )
    return {"mean": mean, "deviation": spread, "seeds": right, "seconds": statistics.median(seconds)}


def _with_goals(numbers: Numbers) -> Numbers:
    """The numbers with the goals of those that have one, which are printed, too."""
    for name, figure in GOAL.items():
        if name in numbers:
            numbers[name]["goal"] = figure
            verdict = "reached" if numbers[name]["ours_faster_by"] >= figure else "missed"
            print(f"  against {name}: the goal is {figure:g}x, {verdict}")
    return numbers


PARTS: dict[str, Callable[[int], Numbers]] = {"layer": layer, "epoch": epoch, "accuracy": accuracy}


if __name__ == "__main__":
    run_parts(PARTS, __doc__, rounds=9)
