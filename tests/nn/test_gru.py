"""The reset gate acts after the product as in torch, or before it as the paper's equations say."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deepcanon.nn.gru import GRULayers, ResetBeforeGRU, gru


def values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def test_layers_are_torchs_also_for_a_single_step() -> None:
    torch.manual_seed(0)
    ours, theirs = GRULayers(3, 5, 2).double(), nn.GRU(3, 5, 2).double()
    theirs.load_state_dict(ours.state_dict())
    h = values(2, 4, 5)
    for x, before in ((values(6, 4, 3), None), (values(6, 4, 3), h), (values(1, 4, 3), h)):
        wanted, last = theirs(x, before)
        for gradients in (True, False):
            with torch.set_grad_enabled(gradients):
                found, (kept,) = ours(x, None if before is None else (before,))
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
            torch.testing.assert_close(kept, last, rtol=0, atol=1e-12)


def before_the_product(net: ResetBeforeGRU, x: Tensor, h: Tensor) -> list[Any]:
    """The states of one layer by the equations of Cho et al. (2014), in NumPy."""
    w, u, b = (getattr(net, f"{name}_l0").detach().numpy() for name in ("weight_ih", "weight_hh", "bias"))
    (w_r, w_z, w_n), (u_r, u_z, u_n), (b_r, b_z, b_n) = (np.split(each, 3) for each in (w, u, b))
    state, states = h.numpy(), []
    for step in x.numpy():
        r = sigmoid(step @ w_r.T + state @ u_r.T + b_r)
        z = sigmoid(step @ w_z.T + state @ u_z.T + b_z)
        n = np.tanh(step @ w_n.T + (r * state) @ u_n.T + b_n)
        state = z * state + (1 - z) * n
        states.append(state)
    return states


def test_the_reset_gate_acts_before_the_product_as_the_paper_says() -> None:
    torch.manual_seed(0)
    net = ResetBeforeGRU(3, 5).double()
    x, h = values(6, 4, 3), values(1, 4, 5)
    found, (kept,) = net(x, (h,))
    wanted = before_the_product(net, x, h[0])
    np.testing.assert_allclose(found.detach(), wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kept[0].detach(), wanted[-1], rtol=0, atol=1e-12)


def test_the_two_forms_differ_and_agree_where_nothing_is_reset() -> None:
    torch.manual_seed(0)
    before, after = ResetBeforeGRU(3, 5, 2).double(), nn.GRU(3, 5, 2).double()
    with torch.no_grad():
        for name, weight in before.named_parameters():
            after.get_parameter(name.replace("bias_", "bias_ih_")).copy_(weight)
        for layer in range(2):
            after.get_parameter(f"bias_hh_l{layer}").zero_()
    x = values(6, 4, 3)
    assert float((before(x)[0] - after(x)[0]).detach().abs().max()) > 1e-3
    with torch.no_grad():
        for layer in range(2):  # a reset gate of 1 lets all of the state through, before the product or after
            before.get_parameter(f"bias_l{layer}")[:5] += 50
            after.get_parameter(f"bias_ih_l{layer}")[:5] += 50
    torch.testing.assert_close(before(x)[0], after(x)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("reset", "bias"), [("after", "bias_ih_l1"), ("before", "bias_l1")])
def test_update_gates_are_initialized_to_keep_the_state(reset: Any, bias: str) -> None:
    one = gru(3, 16, 2, dropout=0.0, reset=reset, memory=None)
    assert one.get_parameter(bias).tolist() == [0] * 16 + [1] * 16 + [0] * 16
    long = gru(3, 16, 2, dropout=0.0, reset=reset, memory=50).get_parameter(bias).detach()
    assert bool((long[16:32] >= 0).all())
    assert float(long[16:32].max()) > np.log(25)
