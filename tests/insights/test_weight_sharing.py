"""Convolutions as matrices: counts by hand, the products of real layers, and a matrix that is Toeplitz."""

import pytest
import torch
from torch import nn

from deepcanon.core import Batch, UsageError
from deepcanon.insights.weight_sharing import weight_sharing


def images(channels: int = 1) -> Batch:
    return Batch(torch.randn(2, channels, 8, 8, generator=torch.Generator().manual_seed(0)))


def test_the_layers_of_a_network_are_counted_and_are_their_matrices() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
        nn.Conv2d(6, 2, 3, padding="same", padding_mode="circular"),
    )
    found = weight_sharing(model, images()).numbers["layers"]
    assert [layer["layer"] for layer in found] == ["0", "2", "3"]
    assert [layer["parameters"] for layer in found] == [4 * 9, 6 * 2 * 9, 2 * 6 * 9]
    assert found[0]["products"] == 4 * 6 * 6 * 9
    assert found[0]["dense"] == 4 * 36 * 64
    taps = 2 + 3 + 3  # along an axis of 6 with stride 2: the first position lacks one
    assert found[1]["products"] == 6 * 2 * taps**2
    assert max(layer["error"] for layer in found) < 1e-12


def test_the_matrix_that_is_drawn_has_the_kernel_along_its_diagonals() -> None:
    layer = nn.Conv2d(1, 1, 3, bias=False)
    finding = weight_sharing(nn.Sequential(layer), images())
    matrix = torch.tensor(finding.numbers["drawn"]["matrix"])
    weight = layer.weight.detach()[0, 0]
    for i in range(3):
        for j in range(3):
            assert torch.equal(matrix.diagonal(8 * i + j)[:6], weight[i, j].expand(6))  # the first row of outputs
    assert "36 x 64" in finding.says[1]


def test_a_model_without_convolutions_is_refused() -> None:
    with pytest.raises(UsageError, match="no plain convolution"):
        weight_sharing(nn.Flatten(), images())
