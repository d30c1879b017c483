"""Dense networks: matrices and activations in the written order."""

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.nn.dense import dense, side_by_side


def linears(net: nn.Sequential) -> list[nn.Linear]:
    return [layer for layer in net if isinstance(layer, nn.Linear)]


def test_it_is_matrices_with_the_activation_between_them() -> None:
    net = dense(3, 2, hidden=(5, 4), activation="tanh").double()
    x = torch.randn(7, 3, dtype=torch.float64)
    h: Tensor = x
    first, second, last = linears(net)
    h = (h @ first.weight.T + first.bias).tanh()
    h = (h @ second.weight.T + second.bias).tanh()
    torch.testing.assert_close(net(x), h @ last.weight.T + last.bias, rtol=1e-12, atol=1e-12)


def test_without_hidden_layers_it_is_linear() -> None:
    net = dense(3, 2, activation="tanh").double()
    x, y = torch.randn(2, 7, 3, dtype=torch.float64)
    torch.testing.assert_close(net(x + y) + net(torch.zeros_like(x)), net(x) + net(y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("each", [(), (4,)])
@pytest.mark.parametrize("hidden", [(), (6, 4)])
def test_two_inputs_side_by_side_are_one_that_is_joined(hidden: tuple[int, ...], each: tuple[int, ...]) -> None:
    net = dense(5, 2, hidden=hidden, activation="tanh").double()
    rows, others = torch.randn(7, 3).double(), torch.randn(*each, 7, 2).double().requires_grad_()
    joined = net(torch.cat([rows.expand(*each, 7, 3), others], -1))
    found = side_by_side(net, rows, others)
    torch.testing.assert_close(found, joined, rtol=1e-12, atol=1e-12)
    learned = [others, *net.parameters()]
    torch.testing.assert_close(
        *(torch.autograd.grad(values.sin().sum(), learned) for values in (found, joined)), rtol=1e-10, atol=1e-12
    )


def test_dropout_drops_hidden_units_with_its_probability_and_never_the_outputs() -> None:
    torch.manual_seed(0)
    net = dense(1, 3, hidden=(20_000,), dropout=0.2)
    dropped = net[:-1](torch.ones(1, 1))
    kept = net[:2](torch.ones(1, 1)) > 0
    share = (dropped[kept] == 0).double().mean().item()
    assert abs(share - 0.2) < 5 * (0.2 * 0.8 / int(kept.sum())) ** 0.5
    assert isinstance(net[-1], nn.Linear)


def test_no_dropout_is_the_plain_net_bit_for_bit() -> None:
    torch.manual_seed(0)
    plain = dense(3, 2, hidden=(8, 8))
    torch.manual_seed(0)
    zero = dense(3, 2, hidden=(8, 8), dropout=0.0)
    x = torch.randn(5, 3)
    assert torch.equal(plain(x), zero(x))
    assert [type(layer) for layer in plain] == [type(layer) for layer in zero]


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_dropout_is_a_probability_below_one(dropout: float) -> None:
    with pytest.raises(UsageError, match="dropout"):
        dense(3, 2, hidden=(8,), dropout=dropout)


def test_a_layer_without_units_is_refused() -> None:
    with pytest.raises(UsageError, match="hidden must be at least 1"):
        dense(3, 2, hidden=(8, 0))
