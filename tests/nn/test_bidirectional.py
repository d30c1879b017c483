"""Bidirectional layers are torch's own on packed sequences with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from deepcanon.nn.bidirectional import Bidirectional
from deepcanon.nn.lstm import LSTMVariant

LENGTHS = torch.tensor([7, 1, 4, 6, 2])


def values() -> Tensor:
    return torch.randn(7, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_outputs_and_gradients_are_those_of_torch_on_packed_sequences(kind: Any) -> None:
    torch.manual_seed(0)
    ours = Bidirectional(lambda inputs: kind(inputs, 4), 3, 4, layers=3).double()
    theirs = kind(3, 4, 3, bidirectional=True).double()
    for depth in range(3):
        for suffix, layers in (("", ours.forward_layers), ("_reverse", ours.backward_layers)):
            for name, weight in layers[depth].named_parameters():
                theirs.get_parameter(f"{name.removesuffix('_l0')}_l{depth}{suffix}").data.copy_(weight)
    x = values()
    dirty = x.masked_fill(torch.arange(7).view(-1, 1, 1) >= LENGTHS.view(1, -1, 1), 1e6)
    packed, final = theirs(pack_padded_sequence(x, LENGTHS, enforce_sorted=False))
    wanted, _ = pad_packed_sequence(packed)
    found = ours(dirty, LENGTHS)
    inside = torch.arange(7).unsqueeze(1) < LENGTHS
    torch.testing.assert_close(found[inside], wanted[inside], rtol=0, atol=1e-12)
    h = final[0] if isinstance(final, tuple) else final
    torch.testing.assert_close(ours.last(found, LENGTHS), torch.cat([h[-2], h[-1]], 1), rtol=0, atol=1e-12)
    found[inside].square().sum().backward()
    wanted[inside].square().sum().backward()
    first = ours.backward_layers[0].get_parameter("weight_ih_l0").grad
    torch.testing.assert_close(first, theirs.get_parameter("weight_ih_l0_reverse").grad, rtol=0, atol=1e-10)


def test_without_lengths_all_positions_are_read() -> None:
    torch.manual_seed(0)
    layers = Bidirectional(lambda inputs: LSTMVariant(inputs, 4, peepholes=True), 3, 4, layers=2).double()
    x = values()
    full = torch.full((5,), 7)
    assert torch.equal(layers(x), layers(x, full))
    assert torch.equal(layers.last(layers(x)), layers.last(layers(x), full))


def test_dropout_is_between_the_layers_only() -> None:
    one, two = (
        Bidirectional(lambda inputs: nn.GRU(inputs, 4), 3, 4, layers=layers, dropout=0.5).double() for layers in (1, 2)
    )
    x = values()
    assert torch.equal(one(x), one(x))
    assert not torch.equal(two(x), two(x))
    assert torch.equal(two.eval()(x), two(x))
