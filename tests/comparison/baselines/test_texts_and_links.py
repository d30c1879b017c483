"""Baselines of texts and links: scikit-learn on words counted here, and the scores of networkx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import deepcanon as dc
from deepcanon.comparison.baselines.texts_and_links import BagOfWords, CommonNeighbors, PreferentialAttachment
from deepcanon.core import UsageError


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts in whose words their label shows."""
    path = tmp_path_factory.mktemp("data") / "reviews.csv"
    draw = np.random.default_rng(0)
    words = {"yes": ["good", "fine"], "no": ["bad", "poor"]}
    rows = []
    for place in range(80):
        label = ("yes", "no")[place % 2]
        said = [*draw.choice(["the", "plot", "of", "it"], 4), *draw.choice(words[label], 2)]
        rows.append(f"{' '.join(draw.permutation(said))},{label}")
    path.write_text("\n".join(["review,liked", *rows]) + "\n")
    return path


def test_words_are_counted_and_the_linear_model_is_scikit_learns(reviews: Path) -> None:
    data: Any = dc.load_data(reviews, target="liked", text="review")
    assert BagOfWords.suits(data)
    assert not BagOfWords.suits(dc.load_data("moons"))

    def counted(part: Any) -> np.ndarray:
        rows = np.zeros((len(part), data.sizes["vocab"]))
        for row, (tokens, length) in enumerate(zip(part.x.tolist(), part.lengths.tolist(), strict=True)):
            for token in tokens[:length]:
                rows[row, token] += 1
        return np.log1p(rows)

    oracle = LogisticRegression(max_iter=1000).fit(counted(data.train), data.train.y.numpy())
    bag = BagOfWords.fit(data, 0)
    shares = bag.predict(*data.test.inputs, how="mean")
    np.testing.assert_allclose(shares, oracle.predict_proba(counted(data.test)), atol=1e-6)
    assert torch.equal(bag.predict(*data.test.inputs), data.test.y)
    longer = torch.nn.functional.pad(data.test.x, (0, 5), value=3)  # padding is never read
    assert torch.equal(bag.predict(longer, data.test.lengths, how="mean"), shares)
    with pytest.raises(UsageError, match="draws nothing"):
        bag.predict(*data.test.inputs, how="sample")


@pytest.mark.slow
def test_scores_of_pairs_are_those_of_networkx() -> None:
    data: Any = dc.load_data("planted-links")
    train = data.train
    graph = nx.Graph(train.graph.edge_index.T.tolist())
    graph.add_nodes_from(range(train.graph.nodes))
    apart = [(u, v) for u, v in train.pairs.T.tolist() if not graph.has_edge(u, v)][:200]
    pairs = torch.tensor(apart).T
    shared = [len(list(nx.common_neighbors(graph, u, v))) for u, v in apart]
    np.testing.assert_allclose(CommonNeighbors._score(train.graph, pairs)[:, 0], np.log1p(shared))
    product = [(1 + graph.degree[u]) * (1 + graph.degree[v]) for u, v in apart]
    np.testing.assert_allclose(PreferentialAttachment._score(train.graph, pairs)[:, 0], np.log(product))
    joined = torch.tensor(list(graph.edges)[:50]).T
    product = [graph.degree[u] * graph.degree[v] for u, v in joined.T.tolist()]  # without the edge itself
    np.testing.assert_allclose(PreferentialAttachment._score(train.graph, joined)[:, 0], np.log(product))


def test_links_are_told_better_than_by_guessing() -> None:
    data: Any = dc.load_data("planted-links")
    fitted = CommonNeighbors.fit(data, 0)
    right = fitted.predict(*data.test.inputs) == data.test.y
    assert float(right.double().mean()) > 0.6
    assert torch.allclose(fitted.predict(*data.test.inputs, how="mean").sum(1), torch.ones((), dtype=torch.float64))
    assert not CommonNeighbors.suits(dc.load_data("moons"))
