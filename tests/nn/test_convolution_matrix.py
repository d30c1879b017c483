"""A convolution as a matrix: its product is the convolution, and its entries are counted exactly."""

from typing import Any

import pytest
import scipy.linalg
import torch

from deepcanon.core import UsageError
from deepcanon.nn.convolution import convolve
from deepcanon.nn.convolution_matrix import convolution_count, convolution_matrix

SETTINGS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 4), (11,), {}),
    ((2, 3, 3), (10,), {"stride": 2, "padding": 1, "dilation": 2}),
    ((4, 3, 3, 2), (6, 7), {"padding": "same", "stride": 2}),
    ((4, 1, 3, 3), (5, 6), {"padding": 2, "groups": 2}),
    ((2, 2, 2, 3, 2), (4, 5, 3), {"padding": 1}),
]


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@pytest.mark.parametrize("border", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize(("kernel", "size", "settings"), SETTINGS)
def test_the_product_is_the_convolution(
    kernel: tuple[int, ...], size: tuple[int, ...], settings: dict[str, Any], border: Any
) -> None:
    weight, x = drawn(*kernel), drawn(2, kernel[1] * settings.get("groups", 1), *size)
    for flip in (False, True):
        wanted = convolve(x, weight, border=border, flip=flip, **settings)
        matrix = convolution_matrix(weight, size, border=border, flip=flip, **settings)
        found = (matrix @ x.flatten(1).T).T.reshape(wanted.shape)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel", "size", "settings"), SETTINGS)
def test_counts_are_those_of_the_matrix(
    kernel: tuple[int, ...], size: tuple[int, ...], settings: dict[str, Any]
) -> None:
    matrix = convolution_matrix(drawn(*kernel), size, **settings)
    count = convolution_count(kernel, size, **settings)
    assert count.products == matrix.values().numel()
    assert (count.rows, count.columns) == tuple(matrix.shape)
    assert count.parameters == len(matrix.values().unique()) == drawn(*kernel).numel()
    assert count.dense == matrix.to_dense().numel()


def test_on_one_axis_it_is_scipys_toeplitz_matrix() -> None:
    kernel = drawn(1, 1, 3)
    found = convolution_matrix(kernel, (6,), padding=2, flip=True).to_dense().numpy()
    wanted = scipy.linalg.convolution_matrix(kernel.flatten().numpy(), 6, mode="full")
    assert abs(found - wanted).max() == 0
    assert (found == scipy.linalg.toeplitz(found[:, 0], found[0])).all()


def test_a_first_layer_of_lenet_in_numbers() -> None:
    """6 kernels of 5x5 on 32x32: 150 weights, 117,600 products, where a full layer has 4.8 million."""
    count = convolution_count((6, 1, 5, 5), (32, 32))
    assert (count.parameters, count.products, count.dense) == (150, 6 * 28 * 28 * 25, 6 * 28 * 28 * 1024)


def test_sizes_are_those_of_the_kernel() -> None:
    with pytest.raises(UsageError, match="a kernel of 2 axes needs as many sizes"):
        convolution_matrix(drawn(1, 1, 3, 3), (8,))
    with pytest.raises(UsageError, match="a kernel of 2 axes needs as many sizes"):
        convolution_count((1, 1, 3, 3), (8,))
    with pytest.raises(UsageError, match="3 outputs do not divide into 2 groups"):
        convolution_matrix(drawn(3, 1, 3), (8,), groups=2)
