"""The gradient of a penalized loss is the loss's and the closed form of the penalty's; eigenvalues are scipy's."""

from __future__ import annotations

import copy
from typing import Any

import networkx
import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import Model, UsageError
from deepcanon.core.toy import Toy
from deepcanon.methods.regularized import Regularized, fiedler_value
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.convolutional.cnn import CNN
from deepcanon.models.feedforward.mlp import MLP


def net() -> tuple[MLP, Any]:
    torch.manual_seed(0)
    model, batch = MLP.example()
    return model.double(), type(batch)(batch.x.double(), batch.y)


def gradients(method: Any, batch: Any) -> dict[str, torch.Tensor]:
    model = method.model if isinstance(method, Regularized) else method
    total = torch.stack(list(method.loss(batch).values())).sum()
    found = torch.autograd.grad(total, list(model.parameters()))
    return dict(zip(dict(model.named_parameters()), found, strict=True))


def test_the_gradient_is_that_of_the_loss_and_the_closed_form_of_the_penalty() -> None:
    model, batch = net()
    plain = gradients(model, batch)
    method: Regularized[Any] = Regularized(model, l1=(0.3, 0.0), l2=(0.1, 0.7))
    penalized = gradients(method, batch)
    strengths = {"net.0.weight": (0.3, 0.1), "net.2.weight": (0.0, 0.7)}
    for name, parameter in model.named_parameters():
        l1, l2 = strengths.get(name, (0.0, 0.0))
        wanted = plain[name] + l1 * parameter.sign() + l2 * parameter
        torch.testing.assert_close(penalized[name], wanted.detach(), rtol=1e-12, atol=1e-12)
    terms = method.loss(batch)
    first, second = (model.get_parameter(name).detach().numpy() for name in strengths)
    assert terms["l1"].item() == pytest.approx(0.3 * np.abs(first).sum())
    assert terms["l2"].item() == pytest.approx(0.05 * np.square(first).sum() + 0.35 * np.square(second).sum())


def test_at_zero_the_subgradient_of_l1_is_zero() -> None:
    model, batch = net()
    with torch.no_grad():
        model.get_parameter("net.0.weight").zero_()
    method: Regularized[Any] = Regularized(model, l1=(0.3,), l2=(0.0,))
    plain, penalized = gradients(model, batch), gradients(method, batch)
    assert torch.equal(plain["net.0.weight"], penalized["net.0.weight"])


def test_the_fiedler_value_is_that_of_networkx_and_its_gradient_the_slope() -> None:
    torch.manual_seed(0)
    weights = [torch.randn(4, 3, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)]
    graph: Any = networkx.Graph()
    for layer, weight in enumerate(weights):
        for (i, j), value in np.ndenumerate(weight.numpy()):
            graph.add_edge((layer, j), (layer + 1, i), weight=abs(value))
    wanted = np.sort(np.linalg.eigvalsh(networkx.laplacian_matrix(graph).toarray()))[1]
    assert fiedler_value(weights).item() == pytest.approx(wanted, rel=1e-10)
    for weight in weights:
        weight.requires_grad_()
    assert torch.autograd.gradcheck(lambda *each: fiedler_value(each), weights)
    slopes = torch.autograd.grad(fiedler_value(weights), weights)
    assert all((slope * weight >= 0).all() for slope, weight in zip(slopes, weights, strict=True))


def test_a_network_in_two_separate_parts_has_fiedler_value_zero() -> None:
    apart = torch.block_diag(torch.ones(2, 2), torch.ones(2, 2))
    assert fiedler_value([apart, apart]).item() == pytest.approx(0, abs=1e-5)
    assert fiedler_value([torch.ones(4, 4)]).item() == pytest.approx(4, rel=1e-5)  # of K_{4,4}


@pytest.mark.slow
def test_penalties_do_what_they_are_for() -> None:
    found = {}
    for name, arguments in {
        "plain": {"l2": (0.0,)},
        "l1": {"l1": (0.01,), "l2": (0.0,)},
        "l2": {"l2": (0.05,)},
        "fiedler": {"l2": (0.0,), "fiedler": 1.0},
    }.items():
        torch.manual_seed(0)
        model = MLP(features=2, classes=2, hidden=(12,))
        method: Regularized[Any] = Regularized(model, **arguments)  # type: ignore[arg-type]
        dc.fit(method, dc.load_data("moons"), steps=120, lr=0.02, batch_size=64, quiet=True)
        weights = [model.get_parameter("net.0.weight").detach(), model.get_parameter("net.2.weight").detach()]
        flat = torch.cat([weight.flatten() for weight in weights])
        found[name] = {
            "small": (flat.abs() < 0.02).float().mean().item(),
            "norm": flat.norm().item(),
            "fiedler": fiedler_value(weights).item(),
        }
    assert found["l1"]["small"] > found["plain"]["small"] + 0.2
    assert found["l2"]["norm"] < 0.8 * found["plain"]["norm"]
    assert found["fiedler"]["fiedler"] < 0.5 * found["plain"]["fiedler"]


def test_chosen_layers_and_players_carry_their_own_penalties() -> None:
    model, _ = net()
    one: Regularized[Any] = Regularized(model, l2=(0.5,), layers=("net.2.*",))
    assert one.weights == ["net.2.weight"]
    game, real = GAN.example()
    method: Regularized[Any] = Regularized(game, l2=(0.2,))
    for turn in method.turns():
        own = [p for p in turn.parameters if p.ndim >= 2]  # type: ignore[attr-defined]
        wanted = sum(0.1 * p.square().sum().item() for p in own)
        assert turn.loss(real)["l2"].item() == pytest.approx(wanted, rel=1e-5)  # type: ignore[attr-defined]


def test_without_strength_the_run_is_the_plain_one_bit_for_bit() -> None:
    ends = []
    for strength in (None, 0.0, 0.1):
        torch.manual_seed(1)
        model = MLP(features=2, classes=2, hidden=(8,), dropout=0.1)
        method: Model[Any] = model if strength is None else Regularized(model, l2=(strength,))
        dc.fit(method, dc.load_data("moons"), steps=6, batch_size=32, quiet=True)
        ends.append(copy.deepcopy(model.state_dict()))
    plain, idle, penalized = ends
    assert all(torch.equal(plain[name], idle[name]) for name in plain)
    assert not torch.equal(plain["net.0.weight"], penalized["net.0.weight"])


def test_wrong_arguments_are_refused() -> None:
    model = MLP(features=2, classes=2, hidden=(4,))
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"l1": (-0.1,)}, "l1 takes strengths of 0 or more"),
        ({"l2": (0.1, 0.2, 0.3)}, r"one for each of net\.0\.weight, net\.2\.weight \(got 3 strengths\)"),
        ({"fiedler": -1.0}, "fiedler must be 0 or more"),
        ({"layers": ("net.9",)}, r"matches no weight of mlp; it has net\.0\.weight, net\.2\.weight"),
    )
    for arguments, words in wrong:
        with pytest.raises(UsageError, match=words):
            Regularized(model, **arguments)
    with pytest.raises(UsageError, match="chain of linear layers; cnn is not: set fiedler to 0"):
        Regularized(CNN.example()[0], fiedler=0.1)
    with pytest.raises(UsageError, match="matches no weight of Toy; it has none"):
        Regularized(Toy(2))
