"""The pairs of neighbors that a map is to keep: their probabilities in the data and in the map, and what they cost."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor

DENSE = 5000
"""Of more examples than these, only pairs of near neighbors have a probability (Barnes-Hut)."""

TOLERANCE = 1e-5
"""The largest error of a perplexity, as that of its logarithm."""

BLOCK = 1024
"""The number of rows of a matrix of pairs that are in memory at once."""


class Pairs(Protocol):
    """Pairs of examples with their probabilities p in the data, of which a map has its own, q."""

    def cost(self, points: Tensor, rows: Tensor, exaggeration: float = 1.0) -> Tensor:
        r"""The sum over these rows i of :math:`\sum_j p_{ij} \log (p_{ij} / q_{ij})`; over all it is KL(P || Q).

        Its gradient is that of P multiplied by the exaggeration.
        """

    def gradient(self, points: Tensor, exaggeration: float) -> Tensor:
        """The gradient of KL(P || Q) by all points, (n, latent), with P multiplied by the exaggeration."""


def conditional_probabilities(squares: Tensor, perplexity: float) -> Tensor:
    r"""The probability of each neighbor j of i by squared distances, (m, n): a Gaussian of the given perplexity.

    .. math:: p_{j \mid i} \propto e^{-\beta_i d_{ij}^2}, \qquad -\sum_j p_{j \mid i} \log p_{j \mid i} = \log k

    The precision of each row is found by bisection. What is infinitely far away has no probability.

    >>> p = conditional_probabilities(torch.tensor([[1.0, 2.0, 9.0, torch.inf]]), perplexity=2.0)
    >>> torch.special.entr(p).sum().exp().round(decimals=3)
    tensor(2.)
    """
    finite = squares.masked_fill(squares.isinf(), 0)
    scale = finite.sum(1) / squares.isfinite().sum(1).clamp_min(1)
    precision = 1 / scale.clamp_min(torch.finfo(squares.dtype).tiny)
    low, high = torch.zeros_like(precision), torch.full_like(precision, torch.inf)
    p = torch.zeros_like(squares)
    for _ in range(100):
        logits = -precision.unsqueeze(1) * squares
        p = logits.softmax(1)
        excess = logits.logsumexp(1) + precision * (p * finite).sum(1) - math.log(perplexity)
        if squares.is_meta or float(excess.abs().max()) < TOLERANCE:
            break
        flat = excess > 0
        low, high = torch.where(flat, precision, low), torch.where(flat, high, precision)
        precision = torch.where(high.isinf(), 2 * precision, (low + high) / 2)
    return p


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """The squared Euclidean distances of all rows of x to all of y."""
    products = torch.addmm(y.square().sum(1), x, y.T, alpha=-2)
    return products.add_(x.square().sum(1, keepdim=True)).clamp_min_(0)


class DensePairs:
    r"""All pairs: symmetrized, :math:`p_{ij} = (p_{j \mid i} + p_{i \mid j}) / 2n`."""

    def __init__(self, data: Tensor, perplexity: float) -> None:
        n = len(data)
        parts = []
        for start in range(0, n, BLOCK):
            squares = squared_distances(data[start : start + BLOCK], data)
            here = torch.arange(len(squares), device=data.device)
            squares[here, start + here] = torch.inf
            parts.append(conditional_probabilities(squares, perplexity))
        p = torch.cat(parts)
        self.p = (p + p.T) / (2 * n)

    def cost(self, points: Tensor, rows: Tensor, exaggeration: float = 1.0) -> Tensor:
        p = self.p[rows]
        log_w = -squared_distances(points[rows], points).log1p()
        return _divergence(p, log_w, points, exaggeration)

    def gradient(self, points: Tensor, exaggeration: float) -> Tensor:
        w = squared_distances(points, points).add_(1).reciprocal_()
        w.fill_diagonal_(0)
        pull = (exaggeration * self.p).sub_(w / w.sum()).mul_(w)
        return 4 * (pull.sum(1, keepdim=True) * points - pull @ points)


class SparsePairs:
    """The pairs of each example with its 3k nearest, and the gradient of scikit-learn's Barnes-Hut tree."""

    def __init__(self, data: Tensor, perplexity: float) -> None:
        from sklearn.manifold._t_sne import _joint_probabilities_nn  # slow to import
        from sklearn.neighbors import NearestNeighbors

        near = min(len(data) - 1, int(3 * perplexity + 1))
        rows = data.detach().cpu().numpy()
        graph = NearestNeighbors(n_neighbors=near).fit(rows).kneighbors_graph(mode="distance")
        graph.data **= 2
        self.p: Any = _joint_probabilities_nn(graph, perplexity, 0).tocsr()

    def cost(self, points: Tensor, rows: Tensor, exaggeration: float = 1.0) -> Tensor:
        part = self.p[rows.cpu().numpy()].tocoo()
        p = torch.from_numpy(part.data).to(points)
        i, j = (torch.from_numpy(side).long().to(rows.device) for side in (part.row, part.col))
        log_w = -(points[rows[i]] - points[j]).square().sum(1).log1p()
        return _divergence(p, log_w, points, exaggeration)

    def gradient(self, points: Tensor, exaggeration: float) -> Tensor:
        from sklearn.manifold._t_sne import _kl_divergence_bh

        n, latent = points.shape
        flat = points.detach().cpu().flatten().numpy()
        _, found = _kl_divergence_bh(flat, self.p * exaggeration, 1, n, latent, compute_error=False)
        return torch.from_numpy(found).view(n, latent).to(points)


def pairs_of(data: Tensor, perplexity: float) -> Pairs:
    return (DensePairs if len(data) <= DENSE else SparsePairs)(data, perplexity)


def _divergence(p: Tensor, log_w: Tensor, points: Tensor, exaggeration: float) -> Tensor:
    """The sum of p log (p / q) over pairs, by log w and the partition function of all pairs of points."""
    parts = [squared_distances(points[i : i + BLOCK], points) for i in range(0, len(points), BLOCK)]
    partition = torch.stack([(1 / (1 + part)).sum() for part in parts]).sum() - len(points)  # no point is its neighbor
    own: Tensor = torch.special.xlogy(p, p).sum() - exaggeration * (p * log_w).sum()
    return own + p.sum() * partition.log()
