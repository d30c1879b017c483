"""Pooling and the ways back from it: torch's own, against loops and adjoints, and the bed of nails."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.nn.convolution import convolve, output_size
from deepcanon.nn.unpool import bed_of_nails


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_poolings_are_the_largest_and_the_mean_value_of_every_window(stride: int) -> None:
    x = noise(2, 3, 7, 8)
    windows = np.lib.stride_tricks.sliding_window_view(x.numpy(), (3, 3), axis=(2, 3))[:, :, ::stride, ::stride]
    largest, mean = F.max_pool2d(x, 3, stride), F.avg_pool2d(x, 3, stride)
    close(largest, torch.from_numpy(windows.max((-2, -1))))
    close(mean, torch.from_numpy(windows.mean((-2, -1))))
    assert largest.shape[2:] == (output_size(7, 3, stride=stride), output_size(8, 3, stride=stride))


def test_the_average_is_a_depth_wise_convolution_and_the_global_one_a_mean() -> None:
    x = noise(2, 3, 6, 6)
    box = torch.full((3, 1, 2, 2), 1 / 4, dtype=torch.float64)
    close(F.avg_pool2d(x, 2), convolve(x, box, stride=2, groups=3))
    close(F.adaptive_avg_pool2d(x, 1)[..., 0, 0], x.mean((-2, -1)))
    close(F.adaptive_max_pool2d(x, 1)[..., 0, 0], x.amax((-2, -1)))


def test_the_poolings_gradients_are_those_of_finite_differences() -> None:
    x = noise(1, 2, 4, 4).requires_grad_()
    for pool in (F.max_pool2d, F.avg_pool2d):
        assert torch.autograd.gradcheck(lambda given, pool=pool: pool(given, 2), (x,))


def test_unpooling_puts_every_maximum_back_where_it_was() -> None:
    x = noise(2, 3, 6, 6)
    largest, indices = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(largest, indices, (2, 2))
    close(back, torch.where(x == F.interpolate(largest, scale_factor=2.0, mode="nearest"), x, 0.0))
    close(F.max_pool2d(back.where(back != 0, -torch.inf), 2), largest)


@pytest.mark.parametrize("sizes", [(5,), (4, 5), (2, 3, 4)], ids=str)
def test_a_bed_of_nails_is_the_adjoint_of_taking_every_second_position(sizes: tuple[int, ...]) -> None:
    x, y = noise(2, 3, *sizes).requires_grad_(), noise(2, 3, *(2 * size for size in sizes))
    chosen = y[(slice(None),) * 2 + (slice(None, None, 2),) * len(sizes)]
    close((bed_of_nails(x, 2) * y).sum(), (x * chosen).sum())
    assert torch.autograd.gradcheck(lambda given: bed_of_nails(given, 2), (x,), fast_mode=True)


@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_a_transposed_convolution_is_a_convolution_of_the_bed_of_nails(kernel: int) -> None:
    x, weight = noise(2, 3, 4, 5), noise(3, 4, kernel, kernel)
    nails = bed_of_nails(x, 2)[..., :-1, :-1]  # nothing comes after the last nail
    found = convolve(nails, weight.transpose(0, 1), padding=kernel - 1, flip=True)
    close(found, F.conv_transpose2d(x, weight, stride=2))


def test_repeating_every_value_is_the_adjoint_of_average_pooling() -> None:
    x, y = noise(2, 3, 3, 4), noise(2, 3, 6, 8)
    close((F.interpolate(x, scale_factor=2.0, mode="nearest") * y).sum(), 4 * (x * F.avg_pool2d(y, 2)).sum())


def test_a_factor_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="factor must be at least 1"):
        bed_of_nails(torch.zeros(1, 1, 2), 0)
