"""Plain averages damp each frequency by what theory says, and the model's layers are measured as they are called."""

import pytest
import torch

from deepcanon.core import Batch, Graph, GraphBatch, UsageError
from deepcanon.data import load_data
from deepcanon.insights.over_smoothing import over_smoothing
from deepcanon.models.graphs.gcn import GCN


def test_a_wave_on_a_ring_keeps_its_frequency_and_a_mixture_loses_the_higher_one() -> None:
    around = torch.arange(12)
    half = torch.stack([around, around.roll(1)])
    graph = Graph(torch.cat([half, half.flip(0)], 1), 12)
    angle = 2 * torch.pi * around.double() / 12
    low, high = angle.cos(), (2 * angle).cos()
    model = GCN(features=1, classes=2)

    def measured(x: torch.Tensor) -> list[float]:
        batch = GraphBatch(x=x.unsqueeze(1).float(), y=around % 2, mask=around >= 0, graph=graph)
        plain: list[float] = over_smoothing(model, batch, steps=6).numbers["plain"]
        return plain

    gains = [(1 + 2 * float(angle[k].cos())) / 3 for k in (1, 2)]  # each node is the mean of three
    assert measured(low) == pytest.approx([1 - gains[0]] * 7, abs=1e-6)
    weights = [[gain ** (2 * step) for gain in gains] for step in range(7)]
    wanted = [sum(w * (1 - g) for w, g in zip(row, gains, strict=True)) / sum(row) for row in weights]
    assert measured(low + high) == pytest.approx(wanted, abs=1e-6)


def test_the_layers_of_a_model_are_measured_in_order() -> None:
    batch = load_data("karate").train
    torch.manual_seed(0)
    model = GCN(features=34, classes=2, hidden=(16,) * 6)
    found = over_smoothing(model, batch).numbers
    assert [each["layer"] for each in found["layers"]] == [f"convs.{i}" for i in range(7)]
    rows = model.eval().embed(*batch.inputs).detach().double()
    last = model.convs[-1](rows.float(), batch.graph).detach().double()
    mean = batch.graph.operator("gcn", torch.float64).to_dense()
    wanted = float((last * (last - mean @ last)).sum() / last.square().sum())
    assert found["layers"][-1]["mean_frequency"] == pytest.approx(wanted, rel=1e-4)
    assert found["plain"] == sorted(found["plain"], reverse=True)
    assert 0 < found["spectral_gap"] < 1


def test_what_has_no_graph_layers_is_refused() -> None:
    with pytest.raises(UsageError, match="of nodes of a graph"):
        over_smoothing(GCN(features=3, classes=2), Batch(torch.zeros(3, 2)))

    class Deaf(torch.nn.Module):
        def forward(self, x: torch.Tensor, graph: Graph) -> torch.Tensor:
            return x

    with pytest.raises(UsageError, match="no layer of Deaf is called with a graph"):
        over_smoothing(Deaf(), load_data("karate").train)
