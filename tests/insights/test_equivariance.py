"""Convolutions commute with shifts, dense layers do not; poolings forget where things were."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.insights.equivariance import (
    equivariance,
    equivariance_error,
    flipped,
    invariance_error,
    permuted,
    rotated,
    shifted,
)
from deepcanon.models.convolutional.cnn import CNN

ORDER = torch.randperm(64, generator=torch.Generator().manual_seed(0))
TRANSFORMS = {"shift": shifted(3, 2), "flip": flipped, "rotation": rotated, "permutation": permuted(ORDER)}


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def kernel(layer: nn.Conv2d, weight: Tensor) -> nn.Conv2d:
    with torch.no_grad():
        layer.weight.copy_(weight.expand_as(layer.weight))
    return layer


def circular() -> nn.Conv2d:
    torch.manual_seed(0)
    return nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular").double()


class Dense(nn.Module):
    """A linear layer of all pixels, whose outputs are an image again."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(64, 64).double()

    def forward(self, x: Tensor) -> Tensor:
        return torch.unflatten(self.linear(x.flatten(-2)), -1, (8, 8))


def test_a_circular_convolution_commutes_with_shifts_and_with_nothing_else() -> None:
    layer, x = circular(), images(4, 1, 8, 8)
    errors = {name: equivariance_error(layer, x, transform) for name, transform in TRANSFORMS.items()}
    assert errors.pop("shift") < 1e-12
    assert min(errors.values()) > 0.1


def test_a_dense_layer_commutes_with_none_of_them() -> None:
    assert all(equivariance_error(Dense(), images(4, 1, 8, 8), transform) > 0.1 for transform in TRANSFORMS.values())


def test_a_dense_layer_whose_matrix_commutes_does() -> None:
    """Every matrix that commutes with all shifts is a circular convolution, so the measure must see it as one."""
    dense = Dense()
    row = images(64)
    with torch.no_grad():
        for place in range(64):
            down, right = divmod(place, 8)
            dense.linear.weight[place] = shifted(down, right)(row.view(8, 8)).flatten()
        dense.linear.bias.zero_()
    assert equivariance_error(dense, images(2, 1, 8, 8), shifted(5, 6)) < 1e-12


def test_symmetric_kernels_commute_with_what_they_are_symmetric_under() -> None:
    x = images(2, 1, 8, 8)
    symmetric = kernel(circular(), torch.tensor([[0.0, 1, 0], [1, 2, 1], [0, 1, 0]]))
    assert equivariance_error(symmetric, x, rotated) < 1e-12
    assert equivariance_error(symmetric, x, flipped) < 1e-12
    sobel = kernel(circular(), torch.tensor([[1.0, 2, 1], [0, 0, 0], [-1, -2, -1]]))
    assert equivariance_error(sobel, x, flipped) < 1e-12
    assert equivariance_error(sobel, x, rotated) > 0.1


def test_a_convolution_of_one_pixel_commutes_with_every_order() -> None:
    pointwise = nn.Conv2d(1, 3, 1).double()
    assert all(equivariance_error(pointwise, images(2, 1, 8, 8), t) < 1e-12 for t in TRANSFORMS.values())


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_global_pooling_after_a_pointwise_layer_is_invariant(name: str) -> None:
    pointwise, x = nn.Conv2d(1, 3, 1).double(), images(2, 1, 8, 8)
    assert invariance_error(lambda given: pointwise(given).amax((-2, -1)), x, TRANSFORMS[name]) < 1e-12
    assert invariance_error(pointwise, x, TRANSFORMS[name]) > 0.1


def test_zero_padding_breaks_it_at_the_border_only() -> None:
    layer, x = nn.Conv2d(1, 2, 3, padding=1).double(), images(2, 1, 8, 8)
    inside = torch.zeros(8, 8, dtype=torch.bool)
    inside[2:7, 3:7] = True
    assert equivariance_error(layer, x, shifted(1, 2)) > 0.1
    assert equivariance_error(layer, x, shifted(1, 2), inside=inside) < 1e-12


def test_a_stride_leaves_only_shifts_by_its_multiples() -> None:
    torch.manual_seed(0)
    layer, x = nn.Conv2d(1, 2, 2, stride=2).double(), images(2, 1, 8, 8)
    assert equivariance_error(layer, x, shifted(2, 4), shifted(1, 2)) < 1e-12
    assert equivariance_error(layer, x, shifted(1, 2), shifted(1, 1)) > 0.1


def test_outputs_of_another_shape_are_refused() -> None:
    with pytest.raises(UsageError, match="changes the shape of the output"):
        equivariance_error(lambda x: x[..., :4], images(1, 1, 8, 8), rotated)


def test_the_finding_of_a_convolutional_network() -> None:
    torch.manual_seed(0)
    model = CNN(1, 16, 16, classes=4, hidden=(3, 4))
    state = torch.get_rng_state()
    found = equivariance(model, Batch(images(6, 1, 16, 16).float()))
    assert model.training
    assert torch.equal(state, torch.get_rng_state())
    first, second = found.numbers["layers"]
    assert (first["layer"], first["step"], second["step"]) == ("stages.0.3", [2, 2], [4, 4])
    for row in (first, second):
        assert row["shift inside"] < 1e-6 < 1e-2 < row["shift"]
        assert row["flip"] > 0.1
        assert row["rotation"] > 0.1
        assert row["permutation"] is None  # it has fewer positions than the image
    assert found.numbers["shifts"][0] == {"pixels": 0, "change": 0.0, "kept": 1.0}
    assert [shift["pixels"] for shift in found.numbers["shifts"]] == list(range(9))
    assert min(move["change"] for move in found.numbers["transforms"].values()) > 1e-3


def test_the_finding_of_an_invariant_network_and_of_a_dense_one() -> None:
    torch.manual_seed(0)
    invariant = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    x = images(5, 1, 8, 6).float()
    numbers = equivariance(invariant, Batch(x)).numbers
    (layer,) = numbers["layers"]
    assert layer["shift"] < 1e-6  # everywhere, since there is no border
    assert layer["permutation"] > 0.1
    assert all(shift["change"] < 1e-6 and shift["kept"] == 1 for shift in numbers["shifts"])
    assert sorted(numbers["transforms"]) == ["flip", "permutation"]  # such an image cannot be rotated
    dense = equivariance(nn.Sequential(nn.Flatten(), nn.Linear(48, 3)), Batch(x))
    assert dense.numbers["layers"] == []
    assert dense.numbers["shifts"][3]["change"] > 0.1
    with_one_score = nn.Sequential(nn.Flatten(), nn.Linear(48, 1))
    turned_about = equivariance(with_one_score, Batch(x)).numbers["transforms"]["flip"]["kept"]
    same = with_one_score(x).sign() == with_one_score(x.flip(-1)).sign()
    assert turned_about == pytest.approx(float(same.double().mean()))
    assert dense.says[0] == "No layer has a feature map that could move with the image."


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(DataError, match="is for images"):
        equivariance(nn.Linear(4, 2), Batch(torch.zeros(3, 4)))
