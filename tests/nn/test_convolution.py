"""Convolutions against scipy, torch's own modules, dense kernels with holes, and worked examples."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.nn.convolution import CONVOLUTIONS, Border, Causal, DepthwiseSeparable, Same, convolve, output_size
from deepcanon.nn.pointwise import Pointwise

SIZES = {1: (9,), 2: (7, 6), 3: (5, 4, 6)}
SCIPY_BORDERS = {"zeros": {"mode": "constant"}, "reflect": {"mode": "reflect"}, "replicate": {"mode": "edge"}}
AXES = pytest.mark.parametrize("axes", [1, 2, 3])


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def scipy_correlate(x: Tensor, weight: Tensor, flip: bool) -> Tensor:
    """Channel by channel with scipy.signal, whose words for the two operations are the mathematical ones."""
    operation = scipy.signal.convolve if flip else scipy.signal.correlate
    found = [
        [sum(operation(one[c], kernel[c], mode="valid") for c in range(len(kernel))) for kernel in weight.numpy()]
        for one in x.numpy()
    ]
    return torch.from_numpy(np.array(found))


@pytest.mark.parametrize("flip", [False, True])
@AXES
def test_both_operations_are_those_of_scipy(axes: int, flip: bool) -> None:
    x, weight = noise(2, 3, *SIZES[axes]), noise(4, 3, *[3] * axes)
    close(convolve(x, weight, flip=flip), scipy_correlate(x, weight, flip))


@pytest.mark.parametrize("border", sorted(SCIPY_BORDERS))
@AXES
def test_the_same_size_is_what_scipy_finds_in_a_padded_array(axes: int, border: Border) -> None:
    x, weight = noise(2, 3, *SIZES[axes]), noise(4, 3, *[3] * axes)
    settings: dict[str, Any] = SCIPY_BORDERS[border]
    padded = torch.from_numpy(np.pad(x.numpy(), [(0, 0), (0, 0), *[(1, 1)] * axes], **settings))
    found = convolve(x, weight, padding="same", border=border)
    assert found.shape[2:] == x.shape[2:]
    close(found, scipy_correlate(padded, weight, flip=False))


@pytest.mark.parametrize("border", ["zeros", "reflect", "replicate", "circular"])
@AXES
def test_every_setting_is_that_of_torchs_module(axes: int, border: Border) -> None:
    x = noise(2, 4, *SIZES[axes])
    for stride, padding, dilation, groups in itertools.product((1, 2), (0, 1), (1, 2), (1, 2)):
        layer = CONVOLUTIONS[axes](4, 6, 2, stride, padding, dilation, groups, padding_mode=border).double()
        settings: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        close(convolve(x, layer.weight, layer.bias, border=border, **settings), layer(x))


def test_the_output_size_is_what_torch_and_a_count_by_hand_find() -> None:
    for size, kernel, stride, padding, dilation in itertools.product((7, 8, 11), (1, 2, 3), (1, 2, 3), (0, 1), (1, 2)):
        starts = range(-padding, size + padding - dilation * (kernel - 1), stride)
        found = output_size(size, kernel, stride=stride, padding=padding, dilation=dilation)
        x, weight = torch.zeros(1, 1, size), torch.zeros(1, 1, kernel)
        assert found == len(starts)
        assert found == F.conv1d(x, weight, stride=stride, padding=padding, dilation=dilation).shape[-1]
        same = output_size(size, kernel, stride=stride, padding="same", dilation=dilation)
        assert same == len(range(0, size, stride))
        assert same == convolve(x, weight, stride=stride, padding="same", dilation=dilation).shape[-1]


def test_published_networks_have_the_sizes_that_were_published() -> None:
    assert output_size(227, 11, stride=4) == 55  # AlexNet
    assert output_size(13, 3, stride=2) == 6  # its last pooling: 13x13 becomes 6x6
    assert output_size(28, 5, padding="valid") == 24
    with pytest.raises(UsageError, match="does not fit into 4 positions"):
        output_size(4, 5)


@pytest.mark.parametrize("settings", [{}, {"stride": 2}, {"dilation": 2}, {"groups": 2}, {"flip": True}], ids=str)
@pytest.mark.parametrize("border", ["zeros", "reflect"])
def test_the_gradient_is_that_of_finite_differences(border: Border, settings: dict[str, Any]) -> None:
    for axes, sizes in {1: (5,), 2: (4, 3), 3: (3, 3, 3)}.items():
        x = noise(1, 2, *sizes).requires_grad_()
        weight = noise(2, 2 // settings.get("groups", 1), *[2] * axes).requires_grad_()
        bias = noise(2).requires_grad_()
        together = (x, weight, bias)
        assert torch.autograd.gradcheck(
            lambda *given: convolve(*given, padding="same", border=border, **settings), together, fast_mode=True
        )


def test_a_worked_example_in_one_dimension() -> None:
    x, kernel = torch.tensor([[[0.0, 1, 2, 4, 8, 4, 2, 1, 0]]]), torch.tensor([[[1.0, 0, -1]]])
    assert convolve(x, kernel).tolist() == [[[-2, -3, -6, 0, 6, 3, 2]]]
    assert convolve(x, kernel, padding="same").tolist() == [[[-1, -2, -3, -6, 0, 6, 3, 2, 1]]]


def test_a_worked_example_of_three_channels_with_both_poolings() -> None:
    image = torch.tensor(
        [
            [[2, 1, 0, 0], [0, 0, 2, 1], [0, 2, 0, 1], [2, 1, 0, 1]],
            [[2, 2, 0, 0], [0, 0, 2, 1], [0, 0, 2, 0], [0, 1, 0, 1]],
            [[2, 1, 0, 0], [0, 0, 2, 1], [2, 0, 0, 0], [0, 1, 0, 1]],
        ]
    ).float()
    weight = torch.tensor(
        [
            [[1, 0, 0], [0, -2, 0], [0, 0, -1]],
            [[1, 2, 0], [2, 0, -1], [0, -1, 1]],
            [[0, 0, -2], [0, 1, 2], [-2, 2, 0]],
        ]
    ).float()
    by_channel = convolve(image.unsqueeze(0), weight.unsqueeze(1), padding="same", groups=3)[0]
    assert by_channel.tolist() == [
        [[-4, -4, -1, 0], [-2, 2, -4, -2], [-1, -4, -1, 0], [-4, -2, 2, -2]],
        [[-2, 6, 3, -1], [4, 6, -1, 4], [1, -3, 5, 7], [-1, 0, 5, 2]],
        [[4, 1, 4, -2], [2, 0, 4, 1], [2, -2, -4, 2], [2, 1, 2, 1]],  # the 1 in the second row is printed as 11
    ]
    found = convolve(image.unsqueeze(0), weight.unsqueeze(0), torch.tensor([2.0]), padding="same").relu()
    assert found[0, 0].tolist() == [[0, 5, 8, 0], [6, 10, 1, 5], [4, 0, 2, 11], [0, 1, 11, 3]]
    assert F.max_pool2d(found, 2)[0, 0].tolist() == [[10, 8], [4, 11]]
    assert F.avg_pool2d(found, 2)[0, 0].tolist() == [[21 / 4, 7 / 2], [5 / 4, 27 / 4]]


def test_the_wrong_number_of_axes_is_refused() -> None:
    with pytest.raises(UsageError, match="one, two or three axes"):
        convolve(torch.zeros(2, 3), torch.zeros(1, 3))


@pytest.mark.parametrize("border", ["zeros", "reflect"])
@pytest.mark.parametrize("kernel", [2, 3])
def test_same_is_torchs_own_where_torch_has_it_and_every_second_position_of_it_with_a_stride(
    kernel: int, border: Border
) -> None:
    ours = Same(nn.Conv2d(3, 5, kernel, padding_mode=border)).double()
    theirs = nn.Conv2d(3, 5, kernel, padding="same", padding_mode=border).double()
    theirs.load_state_dict(ours.conv.state_dict())
    x = noise(2, 3, 7, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it copies where the kernel is even
        wanted = theirs(x)
    close(ours(x), wanted)
    strided = Same(nn.Conv2d(3, 5, kernel, stride=2, padding_mode=border)).double()
    strided.conv.load_state_dict(ours.conv.state_dict())
    close(strided(x), wanted[..., ::2, ::2])  # with an odd number of positions the kernel starts at the first
    assert strided(noise(2, 3, 8, 6)).shape == (2, 5, 4, 3)
    with pytest.raises(UsageError, match="without one"):
        Same(nn.Conv2d(3, 5, 3, padding=1))


@pytest.mark.parametrize("dilation", [1, 3])
def test_a_causal_convolution_is_a_dense_map_without_the_future(dilation: int) -> None:
    layer = Causal(2, 3, kernel=3, dilation=dilation).double()
    x = noise(4, 2, 10)
    dense = torch.zeros(3, 10, 2, 10, dtype=torch.float64)  # (output, its time, input, its time)
    for time, i in itertools.product(range(10), range(3)):
        past = time - dilation * (2 - i)
        if past >= 0:
            dense[:, time, :, past] = layer.weight[:, :, i].detach()
    assert layer.bias is not None
    close(layer(x), torch.einsum("otis,bis->bot", dense, x) + layer.bias[:, None])
    slopes: Any = torch.autograd.functional.jacobian(lambda inputs: layer(inputs), x[:1])
    assert not slopes.abs().sum((0, 1, 3, 4)).triu(1).any()


@AXES
def test_a_depth_wise_separable_convolution_is_a_dense_one_of_rank_one(axes: int) -> None:
    layer = DepthwiseSeparable(3, 5, kernel=3, stride=2, padding=1, axes=axes).double()
    each, mix = list(layer)
    assert isinstance(each.weight, Tensor)
    assert isinstance(mix.weight, Tensor)
    kernels = torch.einsum("oc...,cx...->oc...", mix.weight.expand(-1, -1, *[3] * axes), each.weight.double())
    x = noise(2, 3, *SIZES[axes])
    assert isinstance(mix.bias, Tensor)
    close(layer(x), convolve(x, kernels, mix.bias, stride=2, padding=1))


def test_the_numbers_of_weights_of_a_7x7_layer_from_three_to_five_channels() -> None:
    def weights(layer: nn.Module) -> int:
        return sum(parameter.numel() for parameter in layer.parameters())

    assert weights(nn.Conv2d(3, 5, 7, bias=False)) == 7 * 7 * 5 * 3 == 735
    assert weights(DepthwiseSeparable(3, 5, 7, bias=False)) == 7 * 7 * 3 + 5 * 3 == 162
    with pytest.raises(UsageError, match="one, two or three axes"):
        DepthwiseSeparable(3, 5, 7, axes=4)


@AXES
def test_a_dilated_convolution_is_a_dense_one_with_holes(axes: int) -> None:
    x, weight = noise(2, 3, *SIZES[axes]), noise(4, 3, *[2] * axes)
    holes = torch.zeros(4, 3, *[4] * axes, dtype=torch.float64)
    holes[(slice(None),) * 2 + (slice(None, None, 3),) * axes] = weight
    close(convolve(x, weight, dilation=3), convolve(x, holes))


@AXES
def test_a_transposed_convolution_is_the_transposed_matrix(axes: int) -> None:
    x, weight = noise(1, 3, *SIZES[axes]), noise(4, 3, *[2] * axes)
    forward: Any = torch.autograd.functional.jacobian(lambda inputs: convolve(inputs, weight, stride=2), x)
    y = convolve(x, weight, stride=2)
    back = getattr(F, f"conv_transpose{axes}d")(y, weight, stride=2)
    matrix = forward.reshape(y.numel(), x.numel())
    seen = (y.flatten() @ matrix).reshape(x.shape)[tuple(slice(0, size) for size in back.shape)]
    close(back, seen)


def test_a_pointwise_convolution_is_a_linear_map_of_the_channels() -> None:
    layer = Pointwise(3, 5).double()
    x = noise(2, 3, 4, 6)
    close(layer(x), F.linear(x.movedim(1, -1), layer.weight[..., 0, 0]).movedim(-1, 1))
