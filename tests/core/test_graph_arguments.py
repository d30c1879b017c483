"""Whatever a graph is given or asked for in the wrong way ends in a sentence that says what was expected and given."""

from collections.abc import Callable
from typing import Any

import networkx
import numpy as np
import pytest
import torch

from deepcanon.core import DataError, Graph, UsageError

KARATE = Graph.from_networkx(networkx.karate_club_graph())
PAIR = torch.tensor([[0, 1], [1, 0]])
WRONG: tuple[Any, ...] = ("x", [1], None, -1, 1.5, float("nan"), True, {}, torch.ones(3), torch.zeros(0), (1, 2), len)

ASKED: dict[str, Callable[[Any], Any]] = {
    "laplacian": KARATE.laplacian,
    "its precision": lambda v: KARATE.laplacian(dtype=v),
    "variation": KARATE.variation,
    "fourier": lambda v: KARATE.fourier(kind=v),
    "transform": KARATE.fourier().transform,
    "inverse": KARATE.fourier().inverse,
    "filtered signal": lambda v: KARATE.filter(torch.exp, v),
    "order": lambda v: KARATE.filter(torch.exp, torch.ones(34), order=v),
    "embedding": KARATE.spectral_embedding,
    "clusters": KARATE.spectral_clustering,
    "modularity": KARATE.modularity,
    "ratio cut": KARATE.ratio_cut,
    "influence": KARATE.influence,
    "positions": KARATE.positions,
    "operator": KARATE.operator,
    "select": KARATE.select,
    "rows": KARATE.rows,
    "union": Graph.union,
    "points": lambda v: Graph.knn(v, 2),
    "neighbors": lambda v: Graph.knn(torch.rand(9, 2), v),
    "a file": Graph.from_edge_csv,
    "edges": lambda v: Graph(v, 3),
    "nodes": lambda v: Graph(PAIR, v),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_cannot_be_is_refused_in_words(name: str) -> None:
    refused = 0
    for wrong in WRONG:
        try:
            ASKED[name](wrong)
        except (UsageError, DataError):
            refused += 1
    assert refused == len(WRONG)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: KARATE.laplacian(["random_walk"]), r"a Laplacian is combinatorial, .*; got \['random_walk'\]"),  # type: ignore[arg-type]
        (lambda: KARATE.influence("a"), "damping is the probability to walk on, from 0 to below 1 .got 'a'"),  # type: ignore[arg-type]
        (lambda: KARATE.communities(seed="x"), "seed must be a whole number, 0 or more .got 'x'"),  # type: ignore[arg-type]
        (lambda: KARATE.spectral_clustering("2"), "number of clusters must be a whole number, 1 or more .got '2'"),  # type: ignore[arg-type]
        (lambda: KARATE.spectral_clustering(2, seed=0.5), "seed must be a whole number"),  # type: ignore[arg-type]
        (lambda: KARATE.filter(3, torch.ones(34)), "a response is a function of frequencies, .* got 3"),  # type: ignore[arg-type]
        (lambda: KARATE.select(torch.tensor([1])), "chosen by a tensor of their numbers, 0 to 0; got 1 to 1"),
        (lambda: Graph(PAIR, 2, weight=[1.0, 1.0]), r"weights of 2 edges are a tensor .* got \[1.0, 1.0\]"),  # type: ignore[arg-type]
        (lambda: Graph(PAIR, 2, edge_features=1), "features of 2 edges are a tensor with as many rows; got 1"),  # type: ignore[arg-type]
        (lambda: Graph(PAIR, 2, parts=2), "the parts of a graph are a tuple; got 2"),  # type: ignore[arg-type]
        (lambda: Graph(PAIR, 2, parts=("a",)), "a part's number of nodes must be a whole number"),  # type: ignore[arg-type]
        (lambda: Graph(PAIR, 2, names=3), "the names of a graph are a tuple; got 3"),  # type: ignore[arg-type]
        (lambda: KARATE.operator("gcn", weight=2.0), "weights of 156 edges are a tensor"),  # type: ignore[arg-type]
        (lambda: Graph.from_networkx(networkx.path_graph(3), []), "weight is the name of an attribute of edges"),  # type: ignore[arg-type]
    ],
)
def test_the_words_say_what_was_expected_and_given(ask: Callable[[], Any], words: str) -> None:
    with pytest.raises((UsageError, DataError), match=words):
        ask()


def test_numbers_and_signals_may_be_those_of_numpy_or_lists() -> None:
    assert KARATE.spectral_clustering(np.int64(2)).unique().tolist() == [0, 1]  # type: ignore[arg-type]
    levels = np.arange(34.0)
    assert KARATE.variation(levels) == KARATE.variation(torch.from_numpy(levels))  # type: ignore[arg-type]
    labels = [0, 1] * 17
    assert KARATE.modularity(labels) == KARATE.modularity(torch.tensor(labels))  # type: ignore[arg-type]
