"""The fixed-point network solves its equation; its gradient is the unrolled one, and it parts the karate club."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import GraphBatch, UsageError
from deepcanon.data import load_data
from deepcanon.models.graphs import fixed_point_network
from deepcanon.models.graphs.fixed_point_network import FixedPointNetwork


def karate() -> GraphBatch:
    batch: GraphBatch = load_data("karate").train
    return replace(batch, x=batch.x.double())


def made(**arguments: Any) -> FixedPointNetwork:
    torch.manual_seed(0)
    model = FixedPointNetwork(features=34, classes=2, units=6, **arguments).double().eval()
    with torch.no_grad():
        model.bias.normal_()
    return model


def step(model: FixedPointNetwork, batch: GraphBatch, h: Tensor) -> Tensor:
    """One step of the equation, written with a dense matrix."""
    adjacency = torch.zeros(34, 34, dtype=torch.float64)
    source, target = batch.graph.edge_index
    adjacency[target, source] = 1
    weight = model.message * min(1.0, model.contraction / float(torch.linalg.svdvals(model.message.detach())[0]))
    return (adjacency / adjacency.sum(1, keepdim=True) @ h @ weight.T + batch.x @ model.input.T + model.bias).tanh()


def test_the_states_are_a_fixed_point_of_its_equation() -> None:
    batch, model = karate(), made()
    states = model.embed(*batch.inputs)
    torch.testing.assert_close(step(model, batch, states), states, rtol=0, atol=1e-12)


def test_the_gradient_is_that_of_the_unrolled_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, model = karate(), made()
    implicit = torch.autograd.grad(model.loss(batch)["nll"], list(model.parameters()))

    def unrolled(step: Any, start: Tensor) -> Tensor:
        for _ in range(400):
            start = step(start)
        return start

    monkeypatch.setattr(fixed_point_network, "fixed_point", unrolled)
    wanted = torch.autograd.grad(model.loss(batch)["nll"], list(model.parameters()))
    for ours, theirs in zip(implicit, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def test_the_weights_are_held_below_the_contraction_and_small_ones_left_alone() -> None:
    batch, model = karate(), made(contraction=0.5)
    with torch.no_grad():
        model.message.mul_(100)
    states = model.embed(*batch.inputs)
    torch.testing.assert_close(step(model, batch, states), states, rtol=0, atol=1e-12)
    small = made()
    with torch.no_grad():
        small.message.mul_(0.1)
        other = made(contraction=0.4)
        other.load_state_dict(small.state_dict())
    torch.testing.assert_close(small.embed(*batch.inputs), other.embed(*batch.inputs))


def test_every_node_of_a_component_hears_of_every_other_and_of_no_one_else() -> None:
    path = torch.stack([torch.arange(9), torch.arange(1, 10)])
    edges = torch.cat([path, path.flip(0)], 1)
    edges = edges[:, ((edges < 6) == (edges[[0]] < 6)).all(0)]  # two paths, of 6 and of 4 nodes
    torch.manual_seed(0)
    model = FixedPointNetwork(features=1, classes=2, units=4).double().eval()
    x = torch.zeros(10, 1, dtype=torch.float64)
    moved = (model.embed(x + torch.eye(10, 1, dtype=torch.float64), edges) - model.embed(x, edges)).abs().amax(1)
    assert (moved[:6] > 1e-8).all()
    assert (moved[6:] == 0).all()


@pytest.mark.slow
def test_it_parts_the_karate_club() -> None:
    right = []
    for seed in range(2):
        torch.manual_seed(seed)
        model = FixedPointNetwork(features=34, classes=2)
        right.append(dc.fit(model, load_data("karate"), seed=seed, quiet=True, epochs=60).test["accuracy"])
    assert min(right) >= 0.85


def test_wrong_arguments_are_named() -> None:
    for wrong in (1.0, -0.1):
        with pytest.raises(UsageError, match="contraction is the bound on the norm of the weights, 0 to below 1"):
            FixedPointNetwork(features=3, classes=2, contraction=wrong)
    with pytest.raises(UsageError, match="dropout is the probability"):
        FixedPointNetwork(features=3, classes=2, dropout=1.0)
    with pytest.raises(UsageError, match="units must be at least 1"):
        FixedPointNetwork(features=3, classes=2, units=0)
