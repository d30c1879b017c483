"""Signals by layer: exact on nets that can be solved by hand, equal to theory on wide ones, and without a trace."""

import copy

import pytest
import torch
from torch import nn

from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.insights.signal_propagation import signal_propagation, signals
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.nn.activations import Activation
from deepcanon.nn.connections import Residual
from deepcanon.nn.dense import dense


def examples(size: int) -> Batch:
    return Batch(torch.randn(16, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64))


def test_values_and_gradients_are_those_of_the_chain_rule() -> None:
    model = MLP(features=3, targets=2, hidden=(5,), activation="tanh").double()
    x = examples(3).x
    batch = Labeled(x, x[:, :2])
    first, last = signals(model, batch).layers
    z = model.net[0](x)
    answer = model.net[2](z.tanh())
    torch.testing.assert_close(first.values, z.detach())
    torch.testing.assert_close(last.values, answer.detach())
    assert last.gradient is not None
    assert first.gradient is not None
    delta = 2 * (answer - batch.y)  # of the squared error, summed over the examples
    torch.testing.assert_close(last.gradient, delta)
    assert isinstance(model.net[2].weight, torch.Tensor)
    torch.testing.assert_close(first.gradient, delta @ model.net[2].weight * (1 - z.tanh().square()))


def test_an_activation_in_place_does_not_hide_the_signal() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)).double()
    first, _ = signals(net, examples(4)).layers
    torch.testing.assert_close(first.values, net[0](examples(4).x).detach())
    assert first.gradient is not None
    assert (first.gradient[first.values < 0] == 0).all()


@pytest.mark.parametrize(
    ("activation", "initialize"),
    [("relu", "kaiming_normal"), ("tanh", "normal:std=0.2"), ("tanh", "xavier_uniform"), ("selu", "fan_in:gain=2")],
)
def test_a_wide_net_does_what_theory_says(activation: Activation, initialize: str) -> None:
    net = dense(300, 300, [300] * 5, activation=activation).double()
    numbers = signal_propagation(net, examples(300), initialize=initialize).numbers
    assert numbers["forward"] == pytest.approx(numbers["forward_theory"], rel=0.25)
    assert numbers["backward"] == pytest.approx(numbers["backward_theory"], rel=0.25)


def test_the_factor_of_a_layer_tells_good_initializations_from_bad_ones() -> None:
    net = dense(200, 200, [200] * 6).double()
    kept = signal_propagation(net, examples(200), initialize="kaiming_normal")
    assert kept.numbers["forward_factor"] == pytest.approx(1, abs=0.15)
    assert kept.numbers["backward_factor"] == pytest.approx(1, abs=0.15)
    large = signal_propagation(net, examples(200), initialize="normal:std=1").numbers
    assert large["forward_factor"] == pytest.approx(100, rel=0.15)
    assert large["backward_factor"] == pytest.approx(100, rel=0.15)
    zero = signal_propagation(net, examples(200), initialize="zero")
    assert zero.numbers["forward_factor"] is None
    assert zero.says == ("Signals are zero in 7 of 7 layers, gradients are zero in 6 of 7 layers.",)


def test_without_a_chain_there_is_no_theory_but_a_measurement() -> None:
    net = nn.Sequential(nn.Linear(4, 4), Residual(nn.Linear(4, 4)), nn.Linear(4, 2)).double()
    numbers = signal_propagation(net, examples(4)).numbers
    assert numbers["layers"] == ["0", "1.inner", "2"]
    assert numbers["forward_theory"] is None
    assert len(numbers["backward"]) == 3


def test_nothing_happens_to_the_model() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2)).double().eval()
    net[0].weight.requires_grad_(False)
    before, random = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    found = [signal_propagation(net, examples(4), initialize="normal").numbers for _ in range(2)]
    assert found[0] == found[1]
    assert torch.equal(torch.get_rng_state(), random)
    assert not net.training
    assert [parameter.requires_grad for parameter in net.parameters()].count(False) == 1
    assert all(parameter.grad is None for parameter in net.parameters())
    torch.testing.assert_close(dict(net.state_dict()), dict(before), rtol=0, atol=0)


def test_a_model_without_weights_is_refused() -> None:
    with pytest.raises(UsageError, match="no layer of ReLU has weights"):
        signal_propagation(nn.ReLU(), examples(2))
