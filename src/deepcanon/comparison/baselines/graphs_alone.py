"""Baselines of graphs: labels that spread along the edges, and the features without the edges."""

from __future__ import annotations

import warnings
from collections.abc import Generator as Parts
from typing import Any, Self

import numpy as np
import torch
from torch import Generator, Tensor

from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.core import Graph, GraphBatch, How, LabeledGraphs, UsageError
from deepcanon.core.plural import counted
from deepcanon.core.sparse import Sparse
from deepcanon.data import Dataset

ALPHAS = (0.5, 0.8, 0.9, 0.99)
ITERATIONS = 100


class LabelPropagation(BaselineMethod):
    r"""The labels of the training nodes spread along the edges, without a look at the features.

    .. math:: F \leftarrow \alpha S F + (1 - \alpha) Y, \qquad S = D^{-1/2} A D^{-1/2}

    The rows of F are divided by their sums; a node that no label reaches gets the class prior, and every node a
    hundredth of it. The share :math:`\alpha` is the one with the lowest log loss of the validation nodes.

    References:
        | Learning with Local and Global Consistency (Zhou et al., 2004), https://papers.nips.cc/paper/2506
    """

    name = "label_propagation"
    label = "label propagation"

    def __init__(self, shares: Tensor, alpha: float) -> None:
        self.shares = shares
        self.alpha = alpha

    @property
    def choice(self) -> str:
        return f"alpha {self.alpha:g}"

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        return isinstance(data.train, GraphBatch) and "classes" in data.sizes and not data.train.y.is_floating_point()

    @classmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        held = data.train if data.valid is None else data.valid
        found: list[Self] = []
        for alpha in ALPHAS:
            found.append(cls(_spread(data.train, data.sizes["classes"], alpha), alpha))
            best = min(found, key=lambda each: each._loss(held))
            best.progress = (len(found), len(ALPHAS))
            yield best

    def predict(self, x: Any, graph: Graph, *, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The probabilities of the classes, or the class, of every node of the graph that it was fitted to."""
        if how == "sample" or generator is not None:
            raise UsageError(f"{self.label} draws nothing; ask for the mode or the mean")
        if graph.nodes != len(self.shares):
            raise UsageError(
                f"{self.label} knows the graph it was fitted to, of {counted(len(self.shares), 'node')}, and no other"
            )
        return self.shares if how == "mean" else self.shares.argmax(1)

    def _loss(self, held: GraphBatch) -> float:
        return -float(held.where_labeled(self.shares).gather(1, held.labels.cpu().unsqueeze(1)).log().mean())


class NodeFeatures(BaselineMethod):
    """The features alone: a logistic regression on those of each node, or on their mean over each graph."""

    name = "features_alone"
    label = "features alone, LogisticRegression (scikit-learn)"

    def __init__(self, fitted: Any, classes: int) -> None:
        self.fitted = fitted
        self.classes = classes

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        return isinstance(data.train, GraphBatch | LabeledGraphs) and "classes" in data.sizes

    @classmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        train = data.train
        labels = train.labels.cpu().numpy()
        rows = train.where_labeled(torch.from_numpy(_described(*train.inputs))).numpy()
        with threadpool_limits(torch.get_num_threads()), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fit that could go on is a baseline, too
            yield cls(LogisticRegression(max_iter=1000, random_state=seed).fit(rows, labels), data.sizes["classes"])

    def predict(self, x: Any, graph: Graph, *, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The probabilities of the classes, or the class, of every node or graph."""
        if how == "sample" or generator is not None:
            raise UsageError(f"{self.label} draws nothing; ask for the mode or the mean")
        rows = _described(x, graph)
        shares = np.zeros((len(rows), self.classes))
        shares[:, self.fitted.classes_] = self.fitted.predict_proba(rows)
        found = torch.from_numpy(shares)
        return found if how == "mean" else found.argmax(1)


def _spread(train: GraphBatch, classes: int, alpha: float) -> Tensor:
    """The probabilities of the classes of every node, (nodes, classes)."""
    known = torch.zeros(train.graph.nodes, classes, dtype=torch.float64)
    known[train.counted.cpu(), train.labels.cpu()] = 1.0
    prior = known.sum(0) / known.sum()
    operator = train.graph.to("cpu").operator("symmetric")
    shares = known.float()
    for _ in range(ITERATIONS):
        shares = alpha * (operator @ shares) + (1 - alpha) * known.float()
    found, total = shares.double(), shares.double().sum(1, keepdim=True)
    spread = torch.where(total > 0, found / total.clamp_min(torch.finfo(torch.float32).tiny), prior)
    return 0.99 * spread + 0.01 * prior


def _described(x: Any, graph: Graph) -> np.ndarray[Any, Any]:
    """The features of each node, or of many graphs the means over their nodes and the logarithm of their number."""
    features = (x.to_dense() if isinstance(x, Sparse) else x).cpu().double()
    if not graph.parts:
        return np.asarray(features.numpy())
    sizes = torch.tensor(graph.parts)
    which = torch.arange(len(sizes)).repeat_interleave(sizes)
    sums = torch.zeros(len(sizes), features.shape[1], dtype=torch.float64).index_add_(0, which, features)
    return torch.cat([sums / sizes.unsqueeze(1), sizes.double().log().unsqueeze(1)], 1).numpy()
