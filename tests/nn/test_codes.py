"""Patterns of bits stand for classes, and it matters which for which."""

import numpy as np
import pytest
import torch
from torch import Tensor

from deepcanon import fit, from_tensors
from deepcanon.core import DataError
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.nn.codes import from_bits, to_bits


def test_bits_are_numpys_and_give_the_class_back() -> None:
    classes = torch.arange(8)
    bits = to_bits(classes, 3)
    assert torch.equal(bits.byte(), torch.from_numpy(np.unpackbits(classes.byte().numpy()[:, None], axis=1)[:, 5:]))
    assert torch.equal(from_bits(bits), classes)
    with pytest.raises(DataError, match="3 bits encode 8 classes; got class 8"):
        to_bits(torch.tensor([8]), 3)


def test_two_outputs_classify_four_quadrants_unless_a_bit_is_an_exclusive_or() -> None:
    """Where neighbors in a square differ in one bit each unit has a linear task; else one of them has XOR."""
    generator = torch.Generator().manual_seed(0)
    cloud = torch.arange(400) % 4  # in the order 00 01 11 10 around the square
    centers = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    x = centers[cloud] + 0.2 * torch.randn(400, 2, generator=generator)

    def share_right(code_of_cloud: Tensor) -> float:
        y = code_of_cloud[cloud]
        torch.manual_seed(0)
        model = MLP(features=2, targets=2, hidden=(), head="bernoulli")
        fit(model, from_tensors(x, to_bits(y, 2)), quiet=True, lr=0.1, batch_size=100, epochs=10)
        return (from_bits(model.predict(x)) == y).double().mean().item()

    assert share_right(torch.tensor([0b00, 0b01, 0b11, 0b10])) > 0.99
    assert share_right(torch.tensor([0b00, 0b01, 0b10, 0b11])) < 0.8
