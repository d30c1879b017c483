"""Plain recurrent layers are torch's, and powers of the recurrent matrix where they are linear."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.nn.rnn import LinearRNN, RNNLayers, rnn


def values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_layers_are_torchs_also_for_a_single_step(nonlinearity: Any) -> None:
    torch.manual_seed(0)
    ours, theirs = (kind(3, 5, 2, nonlinearity=nonlinearity).double() for kind in (RNNLayers, nn.RNN))
    theirs.load_state_dict(ours.state_dict())
    h = values(2, 4, 5)
    for x, before in ((values(6, 4, 3), None), (values(6, 4, 3), h), (values(1, 4, 3), h)):
        wanted, last = theirs(x, before)
        for gradients in (True, False):
            with torch.set_grad_enabled(gradients):
                found, (kept,) = ours(x, None if before is None else (before,))
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
            torch.testing.assert_close(kept, last, rtol=0, atol=1e-12)


def test_the_linear_state_is_a_sum_of_powers() -> None:
    torch.manual_seed(0)
    net = LinearRNN(3, 5).double()
    x, h = values(4, 2, 3), values(1, 2, 5)
    w, u, b = (net.get_parameter(f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias"))
    power = torch.linalg.matrix_power
    wanted = h[0] @ power(u, 4).T + sum(((x[t] @ w.T + b) @ power(u, 3 - t).T for t in range(4)), torch.zeros(()))
    torch.testing.assert_close(net(x, (h,))[0][-1], wanted, rtol=0, atol=1e-12)


def test_initial_matrices_keep_the_size_of_a_state() -> None:
    torch.manual_seed(0)
    for nonlinearity in ("tanh", "identity"):
        gate = rnn(3, 8, 2, dropout=0.0, nonlinearity=nonlinearity).get_parameter("weight_hh_l1").detach()
        torch.testing.assert_close(gate @ gate.T, torch.eye(8), rtol=0, atol=1e-5)
    assert torch.equal(rnn(3, 8, 2, dropout=0.0, nonlinearity="relu").get_parameter("weight_hh_l0"), torch.eye(8))
