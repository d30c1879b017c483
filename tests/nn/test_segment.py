"""Pooling over segments is that of a loop over them; empty segments give zeros, and gradients are slopes."""

import pytest
import torch
from torch import Tensor

from deepcanon.core import DataError, Graph, UsageError
from deepcanon.nn import pool, segment_max, segment_mean, segment_sum

PARTS = (3, 0, 1, 4)
SEGMENT = torch.tensor([0, 0, 0, 2, 3, 3, 3, 3])
LOOPS = {
    "sum": lambda rows: rows.sum(0),
    "mean": lambda rows: rows.mean(0),
    "max": lambda rows: rows.amax(0),
}


def values() -> Tensor:
    return torch.randn(8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 3


@pytest.mark.parametrize("readout", ["sum", "mean", "max"])
def test_a_readout_is_that_of_every_graph_alone(readout: str) -> None:
    x = values()
    union = Graph(torch.empty(2, 0, dtype=torch.long), 8, parts=PARTS)
    wanted = [LOOPS[readout](rows) if len(rows) else torch.zeros(2) for rows in x.split(PARTS)]
    torch.testing.assert_close(pool(x, union, readout), torch.stack([row.double() for row in wanted]))  # type: ignore[arg-type]


@pytest.mark.parametrize("segmented", [segment_sum, segment_mean, segment_max])
def test_segments_in_any_order_and_empty_ones(segmented: object) -> None:
    x = values()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(segmented(x[order], SEGMENT[order], 5), segmented(x, SEGMENT, 5))  # type: ignore[operator]
    assert segmented(x, SEGMENT, 5)[[1, 4]].tolist() == [[0, 0], [0, 0]]  # type: ignore[operator]
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda some: segmented(some, SEGMENT, 5), (x,))  # type: ignore[operator]


def test_a_graph_that_is_not_a_union_is_one_segment() -> None:
    graph = Graph(torch.empty(2, 0, dtype=torch.long), 8)
    torch.testing.assert_close(pool(values(), graph, "sum"), values().sum(0, keepdim=True))


def test_wrong_pooling_is_refused() -> None:
    graph = Graph(torch.empty(2, 0, dtype=torch.long), 3)
    with pytest.raises(UsageError, match="readout must be one of sum, mean, max"):
        pool(torch.zeros(3, 1), graph, "median")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="graphs of 3 nodes need as many rows of features, got 2"):
        pool(torch.zeros(2, 1), graph, "sum")
