"""Baselines of labeled texts and of links: which words there are, and how many neighbors two nodes share.

References:
    | The Link-Prediction Problem for Social Networks (Liben-Nowell and Kleinberg, 2007),
      https://doi.org/10.1002/asi.20591
"""

from __future__ import annotations

from collections.abc import Generator as Parts
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.comparison.baselines.scikit_learn import Estimator
from deepcanon.core import Graph, How, LabeledPairs, LabeledSequences, UsageError
from deepcanon.core.padding import valid_positions
from deepcanon.data import Dataset


class BagOfWords(Estimator):
    """The linear model of how often each token occurs in a text, by the logarithm of one plus its count."""

    name = "bag_of_words"
    label = "bag of words, linear (scikit-learn)"
    vocab = 0

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        train = data.train
        texts = isinstance(train, LabeledSequences) and "vocab" in data.sizes and not train.at_every_position
        return texts and ("classes" in data.sizes or data.sizes.get("targets") == 1)

    @classmethod
    def _fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.linear_model import LogisticRegression, Ridge

        classes = data.sizes.get("classes")
        kind = Ridge() if classes is None else LogisticRegression(max_iter=1000, random_state=seed)
        train, vocab = data.train, data.sizes["vocab"]
        bag = cls(kind.fit(_counted(train.x, train.lengths, vocab), train.y.cpu().numpy().reshape(-1)), classes)
        bag.vocab = vocab
        yield bag

    def predict(self, x: Tensor, lengths: Tensor, *, how: How = "mode", generator: Generator | None = None) -> Tensor:  # type: ignore[override]
        return self._predicted(_counted(x, lengths, self.vocab), how, generator)


class CommonNeighbors(BaselineMethod):
    r"""The number of neighbors that two nodes share, from which a logistic regression tells a link.

    .. math:: s(u, v) = |\Gamma(u) \cap \Gamma(v)|
    """

    name = "common_neighbors"
    label = "common neighbors"

    def __init__(self, fitted: Any) -> None:
        self.fitted = fitted

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        return isinstance(data.train, LabeledPairs) and data.sizes.get("classes") == 2

    @classmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.linear_model import LogisticRegression

        train = data.train
        rows = cls._score(train.graph, train.pairs)
        yield cls(LogisticRegression(random_state=seed).fit(rows, train.y.cpu().numpy()))

    def predict(
        self, x: Any, graph: Graph, pairs: Tensor, *, how: How = "mode", generator: Generator | None = None
    ) -> Tensor:
        """The probabilities of no link and of a link of each pair, or the likelier of them."""
        if how == "sample" or generator is not None:
            raise UsageError(f"{self.label} draws nothing; ask for the mode or the mean")
        found = torch.from_numpy(self.fitted.predict_proba(self._score(graph, pairs)))
        return found if how == "mean" else found.argmax(1)

    @classmethod
    def _score(cls, graph: Graph, pairs: Tensor) -> NDArray[np.float64]:
        near = _adjacency(graph)
        first, second = pairs.cpu().numpy()
        shared = near[first].multiply(near[second]).sum(1)
        return np.log1p(np.asarray(shared, dtype=np.float64)).reshape(-1, 1)


class PreferentialAttachment(CommonNeighbors):
    r"""The product of the numbers of neighbors of two nodes, from which a logistic regression tells a link.

    .. math:: s(u, v) = |\Gamma(u)| \, |\Gamma(v)|

    A link between the two themselves is not counted: of those to be predicted, the graph shows none.
    """

    name = "preferential_attachment"
    label = "preferential attachment"

    @classmethod
    def _score(cls, graph: Graph, pairs: Tensor) -> NDArray[np.float64]:
        near = _adjacency(graph)
        first, second = pairs.cpu().numpy()
        degrees = np.asarray(near.sum(1), dtype=np.float64).reshape(-1)
        joined = np.asarray(near[first, second], dtype=np.float64).reshape(-1)
        score: NDArray[np.float64] = np.log1p(degrees[first] - joined) + np.log1p(degrees[second] - joined)
        return score.reshape(-1, 1)


def _adjacency(graph: Graph) -> Any:
    """Which nodes are neighbors, whatever the direction of an edge, as a sparse matrix of zeros and ones."""
    from scipy.sparse import csr_array

    source, target = graph.edge_index.cpu().numpy()
    both = np.concatenate([source, target]), np.concatenate([target, source])
    near = csr_array((np.ones(len(both[0])), both), shape=(graph.nodes, graph.nodes))
    near.setdiag(0)
    near.eliminate_zeros()
    near.data[:] = 1
    return near


def _counted(x: Tensor, lengths: Tensor, vocab: int) -> Any:
    """The logarithm of one plus the count of each token in each text, (B, vocab), as a sparse matrix."""
    from scipy.sparse import csr_array

    tokens, ends = x.cpu(), lengths.cpu()
    there = valid_positions(tokens, ends).numpy()
    rows = np.broadcast_to(np.arange(len(tokens))[:, None], there.shape)[there]
    counts = csr_array((np.ones(len(rows)), (rows, tokens.numpy()[there])), shape=(len(tokens), vocab))
    counts.sum_duplicates()
    counts.data = np.log1p(counts.data)
    return counts
