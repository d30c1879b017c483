"""Graph layers, an epoch of graph classification and spectral clustering compared with their peers, on one thread.

    python benchmarks/graph_layers.py [--part layers|epoch|clustering] [--rounds 3] [--json results.json]

``layers``: graph attention, GraphSAGE (mean and max) and GIN, forwards and backwards as an inner layer, 64 features in
and out, on a random graph of 100,000 nodes and 1,000,000 directed edges. PyTorch Geometric's layers are given edges as
they come; edges sorted by their targets, which its kernels read in order; and, where a layer takes it, the adjacency
matrix as a CSR tensor. The fastest of these is its best.

``epoch``: an epoch of graph_classifier on PROTEINS, mini-batches of 32, against the same network of PyG's layers in the
loop of its documentation, with its DataLoader. A bare loop around our model shows what the Trainer adds.

``clustering``: spectral clustering of 2,000 and 20,000 points by their ten nearest neighbors, from the points to the
labels, against scikit-learn's SpectralClustering with arpack. Both are held to the true clusters.

Times are those of the processor. PROTEINS is looked for in $DEEPCANON_DATA. PyG needs
``pip install -c constraints.txt -e '.[bench]'``.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from layer_timing import EDGES, NODES, WIDTH, Numbers, Run, as_csr, both_ways, random_graph, run_parts
from side_by_side import interleaved, table
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Graph
from deepcanon.nn import AttentionConv, GraphIsomorphism, SageConv


def layers(rounds: int) -> Numbers:
    """One layer of each kind, forwards and backwards."""
    from torch_geometric import EdgeIndex
    from torch_geometric.nn import GATConv, GINConv, SAGEConv

    random = torch.Generator().manual_seed(0)
    graph = random_graph(random)
    x = torch.randn(NODES, WIDTH, generator=random).requires_grad_()
    pull = torch.randn(NODES, WIDTH, generator=random)
    order = graph.edge_index[1].argsort(stable=True)
    sorted_edges = EdgeIndex(graph.edge_index[:, order], sparse_size=(NODES, NODES), sort_order="col")
    csr = as_csr(graph.operator("adjacency"))

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    kinds: dict[str, tuple[nn.Module, nn.Module, bool]] = {
        "gat, 1 head": (AttentionConv(WIDTH, WIDTH), GATConv(WIDTH, WIDTH), False),
        "gat, 8 heads": (AttentionConv(WIDTH, WIDTH // 8, heads=8), GATConv(WIDTH, WIDTH // 8, heads=8), False),
        "sage, mean": (SageConv(WIDTH, WIDTH), SAGEConv(WIDTH, WIDTH), True),
        "sage, max": (SageConv(WIDTH, WIDTH, aggregation="max"), SAGEConv(WIDTH, WIDTH, aggr="max"), True),
        "gin": (GraphIsomorphism(WIDTH, WIDTH), GINConv(mlp(), train_eps=True), True),
    }
    numbers: Numbers = {}
    for name, (ours, theirs, takes_csr) in kinds.items():
        candidates = {
            "deepcanon": both_ways(ours, x, graph, pull),
            "PyG, edges": both_ways(theirs, x, graph.edge_index, pull),
            "PyG, sorted edges": both_ways(theirs, x, sorted_edges, pull),
            **({"PyG, CSR": both_ways(theirs, x, csr, pull)} if takes_csr else {}),
        }
        title = f"{name}: {NODES:,} nodes, {EDGES:,} edges, {WIDTH} features"
        found = table(title, interleaved(candidates, rounds, warm_up=1, clock=time.process_time), "deepcanon")
        best = min((each for each in found if each.startswith("PyG")), key=lambda each: found[each]["milliseconds"])
        print(
            f"  PyG at its best: {best}, {found[best]['ours_faster_by']:.2f}x (aims: 3x as it comes, 1.5x at its best)"
        )
        numbers[name] = found
    return numbers


def epoch(rounds: int) -> Numbers:
    """An epoch of graph classification on PROTEINS."""
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GINConv, global_add_pool

    data = dc.load_data("proteins")
    batch, sizes = data.train, {"features": 3, "classes": 2}
    parts = [batch.select(torch.tensor([i])) for i in range(len(batch))]
    loader = DataLoader(
        [Data(x=part.x, edge_index=part.graph.edge_index, y=part.y) for part in parts], batch_size=32, shuffle=True
    )

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (3, 32, 32, 32)
            self.convs = nn.ModuleList(
                GINConv(nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b)), train_eps=True)
                for a, b in pairwise(widths)
            )
            self.head = nn.Linear(96, 2)

        def forward(self, x: Tensor, edges: Tensor, owner: Tensor) -> Tensor:
            read = []
            for conv in self.convs:
                x = conv(x, edges).relu()
                read.append(global_add_pool(x, owner))
            logits: Tensor = self.head(torch.cat(read, 1))
            return logits

    torch.manual_seed(0)
    theirs = Net()
    their_adam = torch.optim.Adam(theirs.parameters(), lr=3e-3)

    def pyg_epoch() -> None:
        for some in loader:
            their_adam.zero_grad()
            F.cross_entropy(theirs(some.x, some.edge_index, some.batch), some.y).backward()
            their_adam.step()

    ours = dc.find("graph_classifier")(**sizes)
    our_adam = torch.optim.Adam(ours.parameters(), lr=3e-3, fused=True)  # as the Trainer has it

    def bare_epoch() -> None:
        for index in torch.randperm(len(batch)).split(32):
            our_adam.zero_grad()
            ours.loss(batch.select(index))["nll"].backward()
            our_adam.step()

    trained = dc.find("graph_classifier")(**sizes)
    only = dc.Dataset(name="proteins", kind="graphs", train=batch, sizes=data.sizes, shape=data.shape)

    def trainer_epoch() -> None:
        dc.fit(trained, only, epochs=1, quiet=True)

    candidates: dict[str, Run] = {
        "deepcanon": bare_epoch,
        "deepcanon, fit of one epoch": trainer_epoch,
        "PyG, loader loop": pyg_epoch,
    }
    times = interleaved(candidates, rounds, warm_up=1, clock=time.process_time)
    return table("an epoch of graph classification on PROTEINS (aim: 3x)", times, "deepcanon")


def clustering(rounds: int) -> Numbers:
    """Spectral clustering of points."""
    from sklearn.cluster import SpectralClustering
    from sklearn.datasets import make_moons
    from sklearn.metrics import adjusted_rand_score

    numbers: Numbers = {}
    for count in (2_000, 20_000):
        points, truth = make_moons(count, noise=0.1, random_state=0)
        given = torch.from_numpy(points)
        found: Numbers = {}

        def ours(given: Tensor = given, found: Numbers = found) -> None:
            found["deepcanon"] = Graph.knn(given, 10).spectral_clustering(2)

        def theirs(points: Any = points, found: Numbers = found) -> None:
            model = SpectralClustering(2, affinity="nearest_neighbors", n_neighbors=10, eigen_solver="arpack")
            found["scikit-learn"] = model.fit(points).labels_

        candidates: dict[str, Run] = {"deepcanon": ours, "scikit-learn, arpack": theirs}
        times = interleaved(candidates, rounds, warm_up=1, clock=time.process_time)
        numbers[str(count)] = table(f"spectral clustering of {count:,} points", times, "deepcanon")
        rand = {name: round(float(adjusted_rand_score(truth, labels)), 3) for name, labels in found.items()}
        print(f"  adjusted Rand index to the true clusters: {rand}")
        numbers[str(count)]["rand"] = rand
    return numbers


PARTS: dict[str, Callable[[int], Numbers]] = {"layers": layers, "epoch": epoch, "clustering": clustering}


if __name__ == "__main__":
    run_parts(PARTS, __doc__, rounds=3)
