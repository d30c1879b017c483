"""Exact searches are those of sorting all products; approximate ones are measured by their recall."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.nn.inner_product_search import ApproximateSearch, nearest_vectors, recall, top_inner_products


def clouds(n: int, width: int = 8) -> tuple[Tensor, Tensor]:
    """Queries, and vectors whose lengths differ: the longest are near to no query."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(n, width, generator=generator) * torch.randn(n, 1, generator=generator).exp()
    return torch.randn(30, width, generator=generator), vectors


@pytest.mark.parametrize("block", [7, 64, 1000])
@pytest.mark.parametrize("k", [1, 10, 200])
def test_blocks_find_what_sorting_all_products_finds(block: int, k: int) -> None:
    queries, vectors = clouds(200)
    products, numbers = top_inner_products(queries, vectors, k, block)
    every = queries @ vectors.T
    torch.testing.assert_close(products, every.sort(1, descending=True).values[:, :k])
    torch.testing.assert_close(every.gather(1, numbers), products)
    assert all(len(set(row)) == k for row in numbers.tolist())


def test_distances_are_found_by_products_of_longer_vectors() -> None:
    queries, vectors = clouds(200)
    distances, numbers = nearest_vectors(queries.double() + 100, vectors.double() + 100, 5)
    wanted, places = torch.cdist(queries.double(), vectors.double()).topk(5, largest=False)
    torch.testing.assert_close(distances, wanted)
    assert torch.equal(numbers, places)
    products, _ = top_inner_products(queries, vectors, 5)
    assert recall(numbers, top_inner_products(queries, vectors, 5)[1]) < 0.9  # the two are not the same problem
    assert products.shape == distances.shape


def test_an_approximate_search_finds_nearly_all() -> None:
    pytest.importorskip("faiss", reason="needs faiss, of deepcanon[search]")
    queries, vectors = clouds(3000)
    exact, numbers = top_inner_products(queries, vectors, 10)
    recalls = []
    for breadth in (10, 200):
        products, found = ApproximateSearch(vectors, breadth=breadth)(queries, 10)
        recalls.append(recall(found, numbers))
        torch.testing.assert_close(products, (queries @ vectors.T).gather(1, found))
        assert bool((products[:, 0] <= exact[:, 0] + 1e-4).all())
    few, many = recalls
    assert few < many
    assert many > 0.98
    distances, found = ApproximateSearch(vectors, metric="euclidean")(queries, 10)
    torch.testing.assert_close(distances, torch.cdist(queries, vectors).gather(1, found))
    assert recall(found, nearest_vectors(queries, vectors, 10)[1]) > 0.98


def test_bad_questions_are_refused() -> None:
    queries, vectors = clouds(20)
    with pytest.raises(UsageError, match=r"of the same width; got \(30, 7\) and \(20, 8\)"):
        top_inner_products(queries[:, :7], vectors, 3)
    with pytest.raises(UsageError, match=r"of 20 vectors, 1 to 20 can be the nearest ones \(got k=21\)"):
        nearest_vectors(queries, vectors, 21)


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "faiss":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UsageError, match=r"needs faiss: pip install 'deepcanon\[search\]'"):
        ApproximateSearch(torch.zeros(3, 2))
