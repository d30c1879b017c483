"""Maximum inner product search: of many vectors, those with the largest products with a query; exact or by a graph."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.display import Shown

BLOCK = 16_384
"""The number of vectors whose products are in memory at once."""


def top_inner_products(queries: Tensor, vectors: Tensor, k: int, block: int = BLOCK) -> tuple[Tensor, Tensor]:
    r"""The ``k`` largest inner products of each query with the vectors, (Q, k), largest first, and their numbers.

    .. math:: \mathrm{top}_k\, \{\langle q, v_i \rangle : i = 1 \dots N\} \qquad (1)

    Products are computed block by block, so that those of all N vectors never are in memory together.

    >>> top_inner_products(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 9.0], [3.0, 0.0], [2.0, 2.0]]), k=2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    _check(queries, vectors, k)
    best = queries.new_empty(len(queries), 0)
    numbers = torch.empty(len(queries), 0, dtype=torch.long, device=queries.device)
    for start in range(0, len(vectors), block):
        products = queries @ vectors[start : start + block].T  # eq. (1)
        here = torch.arange(start, start + products.shape[1], device=queries.device).expand_as(products)
        joined = torch.cat([best, products], 1)
        best, places = joined.topk(min(k, joined.shape[1]), 1)
        numbers = torch.cat([numbers, here], 1).gather(1, places)
    return best, numbers


def nearest_vectors(queries: Tensor, vectors: Tensor, k: int, block: int = BLOCK) -> tuple[Tensor, Tensor]:
    r"""The Euclidean distances of each query to the ``k`` nearest vectors, (Q, k), nearest first, and their numbers.

    This is an inner product search of longer vectors, since :math:`|q|^2` is the same for all of them:

    .. math:: |q - v|^2 = |q|^2 - 2\, \langle (q, 1), (v, -\tfrac12 |v|^2) \rangle \qquad (1)

    >>> nearest_vectors(torch.tensor([[1.0]]), torch.tensor([[4.0], [0.0], [1.5]]), k=2)
    (tensor([[0.5000, 1.0000]]), tensor([[2, 1]]))
    """
    _check(queries, vectors, k)
    center = vectors.mean(0)  # far from the origin, squares would swallow the differences
    queries, vectors = queries - center, vectors - center
    longer = torch.cat([vectors, -0.5 * vectors.square().sum(1, keepdim=True)], 1)
    products, numbers = top_inner_products(torch.cat([queries, torch.ones_like(queries[:, :1])], 1), longer, k, block)
    return (queries.square().sum(1, keepdim=True) - 2 * products).clamp_min(0).sqrt(), numbers  # eq. (1)


class ApproximateSearch(Shown):
    """Approximate search of inner products or distances: a walk through a graph of neighbors that visits few vectors.

    The graph (HNSW) is that of the library faiss, of ``deepcanon[search]``. It is built once; each search then costs
    about the logarithm of the number of vectors.

    References:
        | Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical Navigable Small World Graphs
          (Malkov and Yashunin, 2016), https://arxiv.org/abs/1603.09320
        | Non-metric Similarity Graphs for Maximum Inner Product Search (Morozov and Babenko, 2018),
          https://papers.nips.cc/paper/7722

    Arguments:
        vectors: The vectors, (N, width).
        links: The number of neighbors of each vector in the graph.
        breadth: How many candidates a walk keeps: more find more of the true neighbors, and take longer.
        metric: What is searched: the largest inner products, or the smallest Euclidean distances.
    """

    def __init__(
        self,
        vectors: Tensor,
        links: int = 32,
        breadth: int = 64,
        metric: Literal["inner_product", "euclidean"] = "inner_product",
    ) -> None:
        at_least(2, links=links)
        at_least(1, breadth=breadth)
        _check(vectors[:1], vectors, 1)
        one_of(("inner_product", "euclidean"), metric=metric)
        faiss = _faiss()
        self.vectors, self.metric = vectors, metric
        kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
        self.index = faiss.IndexHNSWFlat(vectors.shape[1], links, kind)
        self.index.hnsw.efConstruction = max(40, 2 * links)
        self.index.hnsw.efSearch = breadth
        self.index.add(vectors.detach().cpu().float().numpy())

    def _facts(self) -> dict[str, Any]:
        return {"vectors": len(self.vectors), "width": self.vectors.shape[1], "metric": self.metric}

    def __call__(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """About the ``k`` largest products or smallest distances of each query, (Q, k), the best first, by number."""
        _check(queries, self.vectors, k)
        self.index.hnsw.efSearch = max(k, self.index.hnsw.efSearch)
        found, numbers = self.index.search(queries.detach().cpu().float().numpy(), k)
        best = torch.from_numpy(found).to(queries)
        return best.sqrt() if self.metric == "euclidean" else best, torch.from_numpy(numbers).to(queries.device)


def recall(found: Tensor, exact: Tensor) -> float:
    """The share of the exact numbers, (Q, k), that were found.

    >>> recall(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[2, 1], [3, 5]]))
    0.75
    """
    return float((found.unsqueeze(2) == exact.unsqueeze(1)).any(1).double().mean())


def _check(queries: Tensor, vectors: Tensor, k: int) -> None:
    if queries.ndim != 2 or vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
        shapes = f"{tuple(queries.shape)} and {tuple(vectors.shape)}"
        raise UsageError(f"queries are (Q, width), vectors (N, width), of the same width; got {shapes}")
    if not 1 <= k <= len(vectors):
        raise UsageError(f"of {len(vectors)} vectors, 1 to {len(vectors)} can be the nearest ones (got k={k})")


def _faiss() -> Any:
    try:
        import faiss  # an extra, slow to import
    except ImportError as error:
        raise UsageError(
            "an approximate search needs faiss: pip install 'deepcanon[search]', or search exactly"
        ) from error
    return faiss
