"""LSTM layers against torch's own, and variants against their equations and the LSTM they become."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deepcanon.nn.lstm import LSTMLayers, LSTMVariant, lstm


def values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def state(layers: int, rows: int, units: int) -> tuple[Tensor, Tensor]:
    both = values(2, layers, rows, units)
    return both[0], both[1]


def close(found: Any, wanted: Any) -> None:
    (out, kept), (out_wanted, kept_wanted) = found, wanted
    for a, b in zip((out, *kept), (out_wanted, *kept_wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_a_single_step_is_torchs_step() -> None:
    torch.manual_seed(0)
    ours, theirs = LSTMLayers(3, 5, 2).double(), nn.LSTM(3, 5, 2).double()
    theirs.load_state_dict(ours.state_dict())
    x, before = values(1, 4, 3), state(2, 4, 5)
    with torch.no_grad():
        close(ours(x, before), theirs(x, before))
    close(ours(x, before), theirs(x, before))
    close(ours(values(6, 4, 3)), theirs(values(6, 4, 3)))


def torchs(variant: LSTMVariant, inputs: int, units: int, layers: int, *, coupled: bool) -> nn.LSTM:
    """torch's LSTM with the weights of a variant; of a coupled one, the input gate has minus the forget gate's."""
    plain = nn.LSTM(inputs, units, layers).double()
    with torch.no_grad():
        for name, weight in variant.named_parameters():
            whole = torch.cat([-weight[:units], weight]) if coupled else weight
            if name.startswith("bias"):
                getattr(plain, name.replace("bias", "bias_ih")).copy_(whole)
                getattr(plain, name.replace("bias", "bias_hh")).zero_()
            elif name.startswith("weight"):
                getattr(plain, name).copy_(whole)
    return plain


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
def test_a_variant_without_effect_is_torchs_lstm(coupled: bool, peepholes: bool) -> None:
    torch.manual_seed(0)
    variant = LSTMVariant(3, 5, 2, coupled=coupled, peepholes=peepholes).double()
    plain = torchs(variant, 3, 5, 2, coupled=coupled)
    x, before = values(6, 4, 3), state(2, 4, 5)
    close(variant(x), plain(x))
    close(variant(x, before), plain(x, before))
    wanted, found = (
        torch.autograd.grad(net(x, before)[0].square().sum(), net.get_parameter("weight_hh_l0"))[0]
        for net in (plain, variant)
    )
    if coupled:  # both gates' weights are the forget gate's
        wanted = torch.cat([wanted[5:10] - wanted[:5], wanted[10:]])
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


@pytest.mark.parametrize("coupled", [False, True])
def test_peepholes_are_those_of_the_equations(coupled: bool) -> None:
    torch.manual_seed(0)
    net = LSTMVariant(3, 5, coupled=coupled, peepholes=True).double()
    nn.init.normal_(net.peep_l0)  # type: ignore[arg-type]
    x, (h, c) = values(6, 4, 3), state(1, 4, 5)
    said = net(x, (h, c))[0].detach().numpy()
    w, u, b, p = (getattr(net, f"{name}_l0").detach().numpy() for name in ("weight_ih", "weight_hh", "bias", "peep"))
    before, cell = h[0].numpy(), c[0].numpy()
    for step, wanted in zip(x.numpy(), said, strict=True):
        a = np.split(step @ w.T + before @ u.T + b, 3 if coupled else 4, axis=1)
        f = sigmoid(a[-3] + p[-2] * cell)
        i = 1 - f if coupled else sigmoid(a[0] + p[0] * cell)
        cell = f * cell + i * np.tanh(a[-2])
        before = sigmoid(a[-1] + p[-1] * cell) * np.tanh(cell)
        np.testing.assert_allclose(before, wanted, rtol=0, atol=1e-12)


def test_dropout_is_between_layers_only() -> None:
    torch.manual_seed(0)
    net = LSTMVariant(3, 5, 1, dropout=0.9, peepholes=True)
    assert torch.equal(net(values(2, 4, 3).float())[0], net(values(2, 4, 3).float())[0])
    deep = LSTMVariant(3, 5, 2, dropout=0.9, peepholes=True)
    assert not torch.equal(deep(values(2, 4, 3).float())[0], deep(values(2, 4, 3).float())[0])
    deep.eval()
    assert torch.equal(deep(values(2, 4, 3).float())[0], deep(values(2, 4, 3).float())[0])


@pytest.mark.parametrize(("coupled", "forget"), [(False, slice(16, 32)), (True, slice(0, 16))])
def test_gates_are_initialized_open(coupled: bool, forget: slice) -> None:
    torch.manual_seed(0)
    one = lstm(3, 16, 2, dropout=0.0, coupled=coupled, peepholes=False, memory=None)
    name = "bias_l1" if coupled else "bias_ih_l1"
    assert torch.equal(getattr(one, name)[forget], torch.ones(16))
    assert float(getattr(one, name).detach().abs().sum()) == 16
    long = lstm(3, 16, 2, dropout=0.0, coupled=coupled, peepholes=False, memory=50)
    spans = (
        getattr(long, name).detach()[forget].exp()
    )  # a cell with a forget gate f keeps its content for 1 / (1 - f) steps
    assert bool(((spans >= 1) & (spans <= 49)).all())
    assert float(spans.max()) > 25
    if not coupled:
        torch.testing.assert_close(long.bias_ih_l1[:16], -long.bias_ih_l1[16:32])  # type: ignore[index]
    gate = long.get_parameter("weight_hh_l0").detach()[forget]
    torch.testing.assert_close(gate @ gate.T, torch.eye(16), rtol=0, atol=1e-5)
