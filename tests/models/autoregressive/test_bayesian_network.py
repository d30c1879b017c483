"""The network by enumeration: its sum, its independences by d-separation, and samples in every topological order."""

from itertools import combinations

import networkx as nx
import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.autoregressive.bayesian_network import BayesianNetwork

EDGES = ("4-0", "4-2", "0-1", "2-1", "1-3", "4-5")
"""Six values: the two paths from 4 to 1 meet there and go on to 3, and 5 is a leaf of its own."""


def model_of(features: int = 6, edges: int | tuple[str, ...] = EDGES, units: int = 4) -> BayesianNetwork:
    torch.manual_seed(0)
    model = BayesianNetwork(features, edges, units).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(1.5 * torch.randn_like(parameter))
    return model


def states(features: int) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(2.0)] * features).double()


def table(model: BayesianNetwork) -> Tensor:
    """The probabilities of all states, with a dimension for each value."""
    with torch.no_grad():
        return model.log_prob(states(model.features)).exp().reshape([2] * model.features)


def graph_of(edges: tuple[str, ...]) -> "nx.DiGraph[int]":
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edges_from(tuple(map(int, edge.split("-"))) for edge in edges)
    return graph


@pytest.mark.parametrize(("edges", "units"), [(EDGES, 4), (EDGES, 0), ((), 3), (2, 4), (99, 2)])
def test_the_probabilities_of_all_states_sum_to_one(edges: int | tuple[str, ...], units: int) -> None:
    assert float(table(model_of(6, edges, units)).sum()) == pytest.approx(1, abs=1e-12)


def test_values_are_independent_exactly_where_the_graph_separates_them() -> None:
    """For all pairs of values and all sets that are given, by networkx's d-separation."""
    joint, graph = table(model_of()), graph_of(EDGES)
    separated = 0
    for a, b in combinations(range(6), 2):
        others = [each for each in range(6) if each not in (a, b)]
        for count in range(5):
            for given in combinations(others, count):
                hidden = [each for each in others if each not in given]
                of_all = joint.sum(hidden, keepdim=True) if hidden else joint
                gap = of_all * of_all.sum((a, b), keepdim=True) - of_all.sum(a, True) * of_all.sum(b, True)
                if nx.is_d_separator(graph, {a}, {b}, set(given)):
                    separated += 1
                    assert gap.abs().max() < 1e-15, (a, b, given)
                else:
                    assert gap.abs().max() > 1e-9, (a, b, given)
    assert separated > 30


def test_samples_are_the_same_in_every_topological_order(monkeypatch: pytest.MonkeyPatch) -> None:
    model, orders = model_of(), [*nx.all_topological_sorts(graph_of(EDGES))]
    assert len(orders) > 5
    drawn = model.sample(100, generator=Generator().manual_seed(0))
    for order in orders:
        monkeypatch.setattr(model, "ordering", order)
        assert torch.equal(model.sample(100, generator=Generator().manual_seed(0)), drawn)


def test_samples_have_the_distribution_of_the_table() -> None:
    model, count = model_of(), 50_000
    drawn = model.sample(count, generator=Generator().manual_seed(1)).long()
    index = (drawn * 2 ** torch.arange(5, -1, -1)).sum(1)
    found = torch.bincount(index, minlength=64) / count
    wanted = table(model).flatten()
    error = (wanted * (1 - wanted) / count).sqrt() + 1 / count
    assert ((found - wanted).abs() / error).max() < 4.5


@pytest.mark.parametrize("units", [0, 5])
def test_one_value_alone_has_the_logit_that_it_has_among_all(units: int) -> None:
    model, x = model_of(units=units), states(6)
    for d in range(6):
        torch.testing.assert_close(model.logits_of(x, d), model.logits(x)[:, d], rtol=0, atol=1e-12)


def test_the_relabeled_network_has_the_relabeled_distribution() -> None:
    """Values in another order, with edges and weights that move along, have the same probabilities."""
    model = model_of()
    place = torch.tensor([3, 5, 0, 1, 4, 2])  # where each value goes
    edges = tuple("-".join(str(int(place[int(end)])) for end in edge.split("-")) for edge in EDGES)
    other, back = model_of(edges=edges), place.argsort()
    rows = (back.unsqueeze(1) * 4 + torch.arange(4)).flatten()
    assert other.hidden is not None
    assert model.hidden is not None
    with torch.no_grad():
        other.direct.weight.copy_(model.direct.weight[back][:, back])
        other.direct.bias.copy_(model.direct.bias[back])
        other.hidden.weight.copy_(model.hidden.weight[rows][:, back])
        other.hidden.bias.copy_(model.hidden.bias[rows])
        other.readout.copy_(model.readout[back])
    x = states(6)
    torch.testing.assert_close(other.log_prob(x[:, back]), model.log_prob(x), rtol=0, atol=1e-12)


def test_the_best_fit_are_the_conditional_frequencies() -> None:
    """Of a collider 0 -> 2 <- 1 the maximum of the likelihood is that of the counts, whose nll is in closed form."""
    random = Generator().manual_seed(0)
    causes = torch.rand(400, 2, generator=random).round()
    effect = (torch.rand(400, generator=random) < 0.15 + 0.7 * (causes[:, 0] != causes[:, 1])).float()
    x = torch.cat([causes, effect.unsqueeze(1)], 1).double()
    torch.manual_seed(0)
    model = BayesianNetwork(3, ("0-2", "1-2"), units=6).double()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=400, line_search_fn="strong_wolfe", tolerance_change=0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        nll = model.loss(Batch(x))["nll"]
        nll.backward()
        return nll

    optimizer.step(closure)
    counts = torch.bincount((x.long() * torch.tensor([4, 2, 1])).sum(1), minlength=8).reshape(2, 2, 2).double()
    shares = counts / counts.sum()
    pair, first, second = shares.sum(2), shares.sum((1, 2)), shares.sum((0, 2))
    best = (first[:, None] * second[None, :])[:, :, None] * shares / pair[:, :, None]
    assert closure().item() == pytest.approx(float(-(shares * best.log()).sum()), abs=1e-6)


@pytest.mark.parametrize(
    ("edges", "sentence"),
    [
        (("0-1", "1-2", "2-0"), "no cycles, and these parents have one"),
        (("1-1",), "no cycles"),
        (("0-6",), "the positions of 6 values are 0 to 5; got the edge '0-6'"),
        (("0>1",), "an edge is the positions of a parent and a child, as 0-2; got '0>1'"),
        (-1, "edges must be at least 0"),
    ],
)
def test_bad_graphs_are_refused(edges: int | tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        BayesianNetwork(6, edges)


def test_other_values_than_zeros_and_ones_are_refused() -> None:
    with pytest.raises(DataError, match="zeros and ones"):
        model_of().log_prob(torch.full((2, 6), 0.5, dtype=torch.float64))
