"""Pooling over features is torch's pooling along another axis, and maxout units are convex piecewise linear."""

import pytest
import torch
from torch import nn

from deepcanon.core import DataError
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.nn.feature_pool import FeaturePool


def test_it_is_torchs_pooling_over_the_axis_of_features() -> None:
    x = torch.randn(3, 12, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for pieces in (1, 2, 3):
        moved = x.movedim(1, -1).reshape(-1, 1, 12)
        for how, peer in (("max", nn.MaxPool1d(pieces)), ("mean", nn.AvgPool1d(pieces))):
            wanted = peer(moved).reshape(3, 4, 5, -1).movedim(-1, 1)
            torch.testing.assert_close(FeaturePool(pieces, how)(x), wanted, rtol=0, atol=1e-15)  # type: ignore[arg-type]


def test_maxout_of_two_pieces_is_the_absolute_value() -> None:
    model = MLP(features=1, targets=1, hidden=(1,), activation="identity", pieces=2).double()
    with torch.no_grad():
        for values, wanted in zip(model.parameters(), ([[1.0], [-1.0]], [0.0, 0.0], [[1.0]], [0.0]), strict=True):
            values.copy_(torch.tensor(wanted))
    x = torch.linspace(-3, 3, 25, dtype=torch.float64)[:, None]
    assert torch.equal(model(x), x.abs())


def test_one_piece_is_the_plain_network_bit_for_bit() -> None:
    torch.manual_seed(0)
    plain = MLP(features=3, classes=2, hidden=(4,))
    torch.manual_seed(0)
    assert str(MLP(features=3, classes=2, hidden=(4,), pieces=1)) == str(plain)
    wide = MLP(features=3, classes=2, hidden=(4, 5), pieces=3)
    assert sum(p.numel() for p in wide.parameters()) == 3 * (4 * 4 + 5 * 5) + 2 * 6


def test_groups_are_whole() -> None:
    with pytest.raises(DataError, match="5 features cannot be pooled in groups of 2"):
        FeaturePool(2)(torch.zeros(1, 5))
