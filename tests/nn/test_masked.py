"""A masked layer is the plain layer with the cut weights at zero."""

import pytest
import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.nn.masked import MaskedLinear, ancestral_order, autoregressive_mask, parent_mask


def test_it_is_a_linear_layer_whose_cut_weights_are_zero_and_stay_without_gradient() -> None:
    torch.manual_seed(0)
    mask = torch.rand(4, 3) < 0.5
    layer, plain = MaskedLinear(mask), nn.Linear(3, 4)
    with torch.no_grad():
        plain.weight.copy_(torch.where(mask, layer.weight, 0.0))
        plain.bias.copy_(layer.bias)
    x = torch.randn(5, 3)
    torch.testing.assert_close(layer(x), plain(x))
    for each in (layer, plain):
        each(x).square().sum().backward()
    assert layer.weight.grad is not None
    assert plain.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, torch.where(mask, plain.weight.grad, 0.0))
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_degrees_that_are_kept_strictly_leave_out_their_own() -> None:
    degrees = torch.arange(1, 5)
    assert torch.equal(autoregressive_mask(degrees, degrees), torch.ones(4, 4).tril().bool())
    assert torch.equal(autoregressive_mask(degrees, degrees, strictly=True), torch.ones(4, 4).tril(-1).bool())


def test_parents_with_a_cycle_or_without_a_place_are_refused() -> None:
    with pytest.raises(UsageError, match=r"no cycles, and these parents have one: \d -> \d -> \d"):
        ancestral_order([[1], [0]])
    with pytest.raises(UsageError, match="among 0 to 1, got 2"):
        parent_mask([[2], []], torch.tensor([0, 1]))


def test_reset_by_connections_a_unit_has_the_bound_of_a_linear_layer_with_the_inputs_of_its_mask() -> None:
    torch.manual_seed(0)
    counts = torch.tensor([0, 1, 4, 100]).repeat_interleave(200)
    layer = MaskedLinear(torch.arange(100) < counts.unsqueeze(1))
    layer.reset_by_connections()
    for count in (0, 1, 4, 100):
        bound = max(count, 1) ** -0.5
        for values in (layer.weight.detach()[counts == count], layer.bias.detach()[counts == count]):
            assert 0.95 * bound < float(values.abs().max()) <= 1.000001 * bound
