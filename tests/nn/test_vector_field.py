"""Vector fields: derivatives along directions are those of autograd, and the time matters."""

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.nn.vector_field import TimeGated, VectorField


@pytest.mark.parametrize("hidden", [(), (7,), (5, 6, 4)])
def test_derivatives_along_directions_are_those_of_autograd(hidden: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    field = VectorField(3, hidden).double()
    t, x, v = torch.rand(4).double(), torch.randn(4, 3).double(), torch.randn(2, 4, 3).double()
    value, derivative = field.along(t, x, v)
    assert torch.equal(value, field(t, x))
    for direction, found in zip(v, derivative, strict=True):
        _, wanted = torch.autograd.functional.jvp(lambda x: field(t, x), x, direction)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_a_layer_is_gated_and_shifted_by_time() -> None:
    torch.manual_seed(0)
    layer, h, t = TimeGated(2, 3), torch.randn(5, 2), torch.rand(5, 1)
    wanted = torch.sigmoid(t @ layer.gate.weight.T + layer.gate.bias) * layer.linear(h) + t @ layer.shift.weight.T
    torch.testing.assert_close(layer(t, h, h.new_zeros(0, 5, 2))[0], wanted)


def test_examples_have_times_of_their_own() -> None:
    torch.manual_seed(0)
    field, x, t = VectorField(2, (8,)).double(), torch.randn(3, 2).double(), torch.tensor([0.0, 0.5, 1.0]).double()
    together = field(t, x)
    for i in range(3):
        torch.testing.assert_close(together[i], field(t[i : i + 1], x[i : i + 1])[0])
    assert not torch.allclose(field(t[:1], x[:1]), field(t[2:], x[:1]))


def test_a_layer_without_units_is_refused() -> None:
    with pytest.raises(UsageError, match="hidden must be at least 1"):
        VectorField(2, (8, 0))
