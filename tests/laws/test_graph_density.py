"""Each law of distributions over graphs is shown a model that breaks it; a healthy one keeps them all."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Graph, Graphs, Terms, UsageError
from deepcanon.laws import check, report
from deepcanon.laws import graph_density as laws
from deepcanon.laws.outcome import Law
from deepcanon.models.graphs.graph_generator import GraphGenerator


class ForgetsTheNodes(GraphGenerator):
    """The number of nodes has no probability."""

    def _log_prob(self, rows: Tensor, sizes: Tensor) -> Tensor:
        return self._edge_log_prob(rows, sizes)


class SeesItself(GraphGenerator):
    """A row is read before it is predicted."""

    def _edge_log_prob(self, rows: Tensor, sizes: Tensor) -> Tensor:
        return super()._edge_log_prob(rows, sizes) + rows.sum((1, 2))


class DrawsOtherwise(GraphGenerator):
    """Edges are drawn at random."""

    def _sample_edges(self, sizes: Tensor, generator: Generator | None) -> Tensor:
        rows = super()._sample_edges(sizes, generator)
        there = torch.ones_like(rows).tril(-1) * (torch.arange(rows.shape[1]).view(1, -1, 1) < sizes.view(-1, 1, 1))
        return (torch.rand(rows.shape, generator=generator) < 0.5).to(rows.dtype) * there


class OneWay(GraphGenerator):
    """Edges are listed once."""

    def sample(self, n: int, **options: Any) -> Graph:
        drawn = super().sample(n, **options)
        return Graph(drawn.edge_index[:, ::2], drawn.nodes, parts=drawn.parts)


class OneMore(GraphGenerator):
    """There is one graph too many."""

    def sample(self, n: int, **options: Any) -> Graph:
        return super().sample(n + 1, **options)


class Mixes(GraphGenerator):
    """The edges of all graphs are counted."""

    def _edge_log_prob(self, rows: Tensor, sizes: Tensor) -> Tensor:
        return super()._edge_log_prob(rows, sizes) - 0.01 * rows.sum()


class PerNode(GraphGenerator):
    """The loss is a mean over nodes."""

    def loss(self, batch: Graphs) -> Terms:
        return {"nll": super().loss(batch)["nll"] / 2}


CASES: list[tuple[Law, type[GraphGenerator]]] = [
    (laws.probabilities_of_all_graphs_sum_to_one, ForgetsTheNodes),
    (laws.probabilities_of_all_graphs_sum_to_one, SeesItself),
    (laws.samples_follow_the_probabilities, DrawsOtherwise),
    (laws.samples_are_graphs, OneWay),
    (laws.samples_are_graphs, OneMore),
    (laws.graphs_do_not_mix, Mixes),
    (laws.loss_is_the_nll_in_some_order, PerNode),
]


@pytest.mark.parametrize(("law", "model"), CASES, ids=lambda case: case.__name__)
def test_each_law_catches_the_fault_it_is_for(law: Law, model: type[GraphGenerator]) -> None:
    torch.manual_seed(0)
    found = law(*model.example())
    assert found is not None
    assert not found.holds, found.detail
    assert "raised" not in found.detail


@pytest.mark.slow
def test_a_healthy_model_keeps_them_all() -> None:
    torch.manual_seed(0)
    found = check(GraphGenerator.example(), "graph_density")
    assert len(found) == len(laws.LAWS)
    assert all(outcome.holds for outcome in found), report(found)


def test_they_are_laws_of_graphs_alone() -> None:
    model, _ = GraphGenerator.example()
    with pytest.raises(UsageError, match="on Graphs, got Batch"):
        check((model, Batch(torch.randn(3, 12))), "graph_density")
