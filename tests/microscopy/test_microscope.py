"""The microscope's numbers are torch's own, edge by edge, and a wrong backward is marked where it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function

from deepcanon.core import Labeled, UsageError
from deepcanon.microscopy.compute_graph import ComputeGraph
from deepcanon.microscopy.microscope import microscope
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.variational.vae import VAE


class Block(nn.Module):
    """A transformer block of torch's own parts."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout, "gelu", batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        out: Tensor = self.layer(x, src_mask=mask, is_causal=True)
        return out.square().sum(-1).mean()


def mlp() -> tuple[nn.Module, Any, Callable[[Any, Any], Tensor]]:
    model, batch = MLP.example()
    return model, batch.select(torch.arange(3)), lambda model, batch: sum(model.loss(batch).values())


def vae() -> tuple[nn.Module, Any, Callable[[Any, Any], Tensor]]:
    model, batch = VAE.example()
    return model, batch.select(torch.arange(3)), lambda model, batch: sum(model.loss(batch).values())


def block() -> tuple[nn.Module, Any, Callable[[Any, Any], Tensor]]:
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    return Block(dropout=0.2), x, lambda model, x: model(x)


def engine_edges(loss: Tensor) -> list[Tensor]:
    """What torch's engine hands along each edge of its own graph, by hooks on its nodes."""
    seen: list[Tensor] = [torch.ones_like(loss)]
    todo, known = [loss.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in known:
            continue
        known.add(node)
        todo += [following for following, _ in node.next_functions]
        if node.name() != "struct torch::autograd::AccumulateGrad":
            node.register_hook(lambda given, _: seen.extend(each for each in given if each is not None))
    loss.backward()
    return seen


def double(batch: Any) -> Any:
    def wide(tensor: Tensor) -> Tensor:
        return tensor.double().requires_grad_() if tensor.is_floating_point() else tensor

    return wide(batch) if isinstance(batch, Tensor) else batch._map(wide)


@pytest.mark.parametrize("case", [mlp, vae, block])
def test_every_delta_is_one_that_torch_hands_along_an_edge(case: Any) -> None:
    torch.manual_seed(1)
    model, batch, loss = case()
    graph = microscope(model, batch, seed=5)
    twin = copy.deepcopy(model).double()
    torch.manual_seed(5)
    end = loss(twin, double(batch))
    assert graph.loss == pytest.approx(end.item(), rel=1e-13)
    engine = [each.numpy() for each in engine_edges(end)]
    deltas = [edge.delta for edge in graph.edges if edge.delta is not None]
    assert len(deltas) > 7
    for delta in deltas:
        near = [np.abs(each - delta).max() for each in engine if each.shape == delta.shape]
        assert min(near, default=np.inf) <= 1e-13 * max(1.0, np.abs(delta).max())
    for name, parameter in twin.named_parameters():
        if parameter.grad is not None:
            np.testing.assert_allclose(graph.find(name).delta, parameter.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", [mlp, vae, block])
def test_all_is_judged_right_and_the_deltas_out_of_a_node_add_up(case: Any) -> None:
    model, batch, _ = case()
    graph = microscope(model, batch)
    assert {edge.verdict.status for edge in graph.edges} <= {"agrees", "constant", "cut"}
    assert all(check.holds for check in graph.checks), graph.checks
    for node in graph.nodes:
        for output, delta in enumerate(node.deltas):
            leaving = [edge.delta for edge in graph.out_of(node, output) if edge.delta is not None]
            if delta is not None and leaving:
                np.testing.assert_allclose(sum(leaving), delta, rtol=1e-12, atol=1e-15)


class Product(Function):
    """A product whose backward is wrong in one of its two inputs by ``fault``."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, fault: Any) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.fault = fault
        return a * b

    @staticmethod
    def backward(ctx: Any, *deltas: Any) -> Any:
        a, b = ctx.saved_tensors
        return deltas[0] * b, ctx.fault(deltas[0] * a), None


product: Any = Product.apply  # kept under a name of its own, as many programs do


class Gated(nn.Module):
    def __init__(self, fault: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).tanh()
        out: Tensor = self.second(product(hidden, hidden.sigmoid(), self.fault)).square().mean()
        return out


def one_entry(delta: Tensor) -> Tensor:
    return delta.index_put((torch.tensor(1), torch.tensor(2)), delta[1, 2] + 0.01)


@pytest.mark.parametrize("fault", [lambda d: 1.01 * d, lambda d: -d, torch.zeros_like, one_entry])
def test_a_wrong_backward_is_marked_at_its_edge_and_at_no_other(fault: Any) -> None:
    torch.manual_seed(0)
    graph = microscope(Gated(fault), torch.randn(2, 3))
    (wrong,) = graph.mismatches
    assert (graph.nodes[wrong.source].name, graph.nodes[wrong.target].name, wrong.slot) == ("sigmoid", "Product", 1)
    assert {edge.verdict.status for edge in graph.edges if edge is not wrong} == {"agrees"}
    checks = {check.name: check.holds for check in graph.checks}
    assert checks == {"each operation": False, "the whole": False, "torch.autograd": True}


def test_a_right_custom_backward_is_not_marked() -> None:
    torch.manual_seed(0)
    graph = microscope(Gated(lambda d: d), torch.randn(2, 3))
    assert graph.mismatches == []
    assert all(check.holds for check in graph.checks)
    assert graph.find("Product")


def test_a_gradient_hook_is_not_overlooked() -> None:
    class Hooked(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            out.register_hook(lambda delta: 2 * delta)
            return out.square().mean()

    checks = {check.name: check for check in microscope(Hooked(2, 2), torch.ones(1, 2)).checks}
    assert not checks["torch.autograd"].holds
    assert "a hook" in checks["torch.autograd"].detail


def test_the_local_jacobian_is_torch_s() -> None:
    layer = nn.Sequential(nn.Linear(3, 4), nn.Softmax(-1)).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    graph = microscope(layer, x, lambda y: y.square().sum())
    (into,) = graph.into(graph.find("softmax"))
    z = torch.from_numpy(into.value)
    expected = torch.autograd.functional.jacobian(lambda z: z.softmax(-1), z)
    np.testing.assert_allclose(graph.jacobian(into.id), expected, rtol=1e-12, atol=1e-15)
    with pytest.raises(UsageError, match="there are the edges 0 to"):
        graph.jacobian(99)


def test_neither_model_nor_batch_nor_generator_is_changed() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4, 1))
    x = torch.randn(6, 3)
    before, rows, random = copy.deepcopy(net.state_dict()), x.clone(), torch.get_rng_state()
    graph = microscope(net, x)
    assert graph.mismatches == []
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(x, rows)
    assert not x.requires_grad
    assert torch.equal(torch.get_rng_state(), random)
    assert net[0].weight.grad is None
    assert graph.loss == microscope(net, x).loss


def test_a_sample_without_reparameterization_is_marked_and_falls_again_as_it_fell() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            own = torch.Generator().manual_seed(3)
            return torch.normal(x, 0.5, generator=own).square().sum()  # torch sends no delta through the mean

    graph = microscope(Noisy(), torch.randn(4))
    (wrong,) = graph.mismatches
    sample = graph.nodes[wrong.target]
    assert (sample.name, wrong.verdict.given) == ("normal", 0.0)
    assert np.isclose(2 * sample.values[0], wrong.verdict.measured, rtol=1e-8).any()  # had it fallen otherwise: noise


def test_a_corner_is_no_fault() -> None:
    pool = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))
    graph = microscope(pool, torch.zeros(1, 1, 4, 4))
    assert {edge.verdict.status for edge in graph.edges} == {"kink", "agrees"}
    whole = next(check for check in graph.checks if check.name == "the whole")
    assert whole.holds
    assert whole.detail.endswith("2 edges are at a corner, so both may be right")


def test_where_a_gradient_is_cut_the_edge_says_so() -> None:
    class Stopped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            hidden = super().forward(x)
            return (hidden * hidden.detach()).sum()

    graph = microscope(Stopped(2, 2), torch.randn(1, 2))
    (into,) = graph.into(graph.find("detach"))
    assert (into.verdict.status, into.delta) == ("cut", None)
    assert all(check.holds for check in graph.checks)


def test_any_form_of_input_and_output_will_do() -> None:
    class Named(nn.Module):
        def forward(self, *, left: Tensor, scale: float, ids: Tensor) -> dict[str, Any]:
            return {"a": left * scale, "b": [left[ids], "text"], "c": ids}

    graph = microscope(Named(), {"left": torch.randn(3), "scale": 2.0, "ids": torch.tensor([0, 0, 2])})
    np.testing.assert_allclose(graph.find("left").delta, [4.0, 2.0, 3.0])
    assert graph.find("ids").deltas == (None,)
    pair = microscope(nn.Bilinear(2, 3, 1), (torch.randn(4, 2), torch.randn(4, 3)))
    assert pair.find("x2").values[0].shape == (4, 3)


def test_what_cannot_be_recorded_is_an_error() -> None:
    class Slope(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            (slope,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
            return slope.sum()

    with pytest.raises(UsageError, match=r"cannot record it: .* a derivative that is taken within the loss"):
        microscope(Slope(), torch.randn(2))
    with pytest.raises(UsageError, match=r"one real number, got torch.float64 of shape \(2, 1\)"):
        microscope(nn.Linear(3, 1), torch.randn(2, 3), lambda y: y)
    with pytest.raises(UsageError, match="nothing that gets a gradient"):
        microscope(nn.Linear(3, 1), torch.randn(2, 3), lambda y: y.detach().sum())
    with pytest.raises(UsageError, match="mlp learns from labeled examples: give a Labeled, got Tensor"):
        microscope(MLP.example()[0], torch.randn(2, 3))
    with pytest.raises(UsageError, match=r"say by loss= what to differentiate"):
        microscope(nn.Flatten(), torch.zeros(2, 2, dtype=torch.long))


def test_the_worked_numbers_of_a_small_network() -> None:
    """Inputs (1, 2) and targets (2, 4): h = (0, 2), y = (0, 2), the mean squared error 4, and one step of descent."""

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.output = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, i: Tensor) -> Tensor:
            out: Tensor = self.output(self.hidden(i).relu()).relu()
            return out

    net = Small()
    with torch.no_grad():
        net.hidden.weight.copy_(torch.tensor([[1.0, -0.5], [0.5, 1.0]]))
        net.hidden.bias.copy_(torch.tensor([-0.5, -0.5]))
        net.output.weight.copy_(torch.tensor([[0.5, -1.0], [-2.0, 0.5]]))
        net.output.bias.copy_(torch.tensor([1.0, 1.0]))
    graph = microscope(net, torch.tensor([[1.0, 2.0]]), lambda y: (y - torch.tensor([[2.0, 4.0]])).square().mean())
    hidden, output = (node for node in graph.nodes if node.name == "relu")
    np.testing.assert_allclose(hidden.values[0], [[0.0, 2.0]])
    np.testing.assert_allclose(output.values[0], [[0.0, 2.0]])
    assert graph.loss == pytest.approx(4.0)
    first, second = graph.find("hidden.weight"), graph.find("output.weight")
    assert second.value[0, 0] - 0.01 * second.delta[0, 0] == pytest.approx(0.5)  # behind a unit that is off
    assert second.value[1, 1] - 0.01 * second.delta[1, 1] == pytest.approx(0.54)
    assert first.value[1, 1] - 0.01 * first.delta[1, 1] == pytest.approx(1.02)


@pytest.mark.parametrize("name", ["gan", "rbm", "realnvp", "nade", "ddpm", "autoencoder"])
def test_models_of_other_families_are_judged_right(name: str) -> None:
    from deepcanon.catalogue import find

    model, batch = find(name).example()
    graph: ComputeGraph = microscope(model, batch.select(torch.arange(min(2, len(batch)))))
    assert graph.mismatches == []
    assert all(check.holds for check in graph.checks), graph.checks


def test_a_batch_of_labeled_examples_goes_to_the_forward_of_a_plain_module() -> None:
    batch = Labeled(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    graph = microscope(nn.Linear(3, 2), batch, lambda y: nn.functional.cross_entropy(y, batch.y))
    assert graph.find("cross_entropy_loss").values[0].shape == ()
