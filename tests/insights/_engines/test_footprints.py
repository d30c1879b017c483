"""What tensors see of the input, against the support of gradients of random networks of every kind of operation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.insights._engines.footprints import Footprints

SIDES = (11, 12)
torch.manual_seed(0)
WEIGHT = torch.randn(2, 2, 3, 3, dtype=torch.float64)
ATTENTION = nn.MultiheadAttention(2, 1, batch_first=True).double().eval()


def conv(x: Tensor, stride: int = 1, padding: int = 0, dilation: int = 1) -> Tensor:
    return F.conv2d(x, WEIGHT, None, stride, padding, dilation)


def in_place(x: Tensor) -> Tensor:
    h = conv(x, padding=1)
    h[..., 1:4, :] += x[..., 5:8, :]
    return h


EXACT: dict[str, Callable[[Tensor], Tensor]] = {
    "convolution": lambda x: conv(conv(x, stride=2), padding=1),
    "dilated convolution": lambda x: conv(conv(x, dilation=3), dilation=2),
    "average": lambda x: F.avg_pool2d(conv(x, padding=1), 3, 2, padding=1),
    "adaptive average": lambda x: F.adaptive_avg_pool2d(conv(x[..., :10, :], padding=1), (5, 4)),
    "strided slice": lambda x: conv(x[..., 1::2, 2:-1]),
    "negative slice": lambda x: conv(x[..., -7:, -6:]),
    "selected row": lambda x: conv(x)[..., 4, :].unsqueeze(2),
    "residual": lambda x: conv(x, padding=1) + 2 * x,
    "concatenation": lambda x: torch.cat([conv(x, padding=1), x], 1),
    "split channels": lambda x: conv(x).chunk(2, 1)[1],
    "broadcast row": lambda x: x.mean(-2, keepdim=True) * torch.ones(SIDES[0], 1, dtype=torch.float64),
    "transposed": lambda x: conv(conv(x).mT).mT,
    "channels last": lambda x: conv(x).permute(0, 2, 3, 1).mul(2).permute(0, 3, 1, 2),
    "linear over channels": lambda x: F.linear(x.permute(0, 2, 3, 1), WEIGHT[..., 0, 0]).permute(0, 3, 1, 2),
    "softmax over columns": lambda x: conv(x).softmax(-1),
    "reshaped channels": lambda x: conv(x).reshape(1, 1, 2, 9, 10).squeeze(1),
    "pixels that no pooling read": lambda x: conv(F.avg_pool2d(x[..., :8], 3), padding=1),
    "group norm": lambda x: F.group_norm(conv(x), 2),
    "layer norm": lambda x: F.layer_norm(conv(x), (10,)),
    "batch norm": lambda x: F.batch_norm(conv(x), torch.zeros(2).double(), torch.ones(2).double()),
    "zero padding": lambda x: conv(F.pad(x, (3, 0, 1, 2))),
    "one signal": lambda x: F.conv1d(x.mean(2), WEIGHT[..., 0], padding=1).unsqueeze(2),
    "pooled signal": lambda x: F.avg_pool1d(x.mean(2), 3).unsqueeze(2),
    "squeezed": lambda x: conv(x)[:, :1].squeeze(1).unsqueeze(1),
}

BOUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "nearest": lambda x: conv(F.interpolate(x, scale_factor=2.0, mode="nearest")),
    "bilinear": lambda x: conv(F.interpolate(x, size=(17, 25), mode="bilinear")),
    "aligned bilinear": lambda x: conv(F.interpolate(x, size=(17, 25), mode="bilinear", align_corners=True)),
    "transposed convolution": lambda x: F.conv_transpose2d(x, WEIGHT, stride=2, padding=1),
    "uneven adaptive average": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "circular": lambda x: conv(F.pad(x, (1, 1, 1, 1), mode="circular")),
    "mirrored": lambda x: conv(F.pad(x, (1, 1, 1, 1), mode="reflect")),
    "rolled": lambda x: conv(x.roll(3, -1)),
    "flipped": lambda x: conv(x).flip(-1),
    "rotated": lambda x: conv(x.rot90(1, (-2, -1))),
    "in place": in_place,
    "columns side by side": lambda x: torch.cat([x, conv(x, padding=1)], -1),
    "pixel shuffle": lambda x: F.pixel_shuffle(conv(x).repeat(1, 2, 1, 1), 2),
    "reshaped columns": lambda x: conv(x).reshape(1, 2, 9, 5, 2)[..., 0],
    "columns of a row": lambda x: conv(x).flatten(2).unsqueeze(2)[..., :20],
    "product of places": lambda x: conv(x) @ conv(x).mT,
    "attention": lambda x: ATTENTION(*[x[..., :4, :4].flatten(2).mT] * 3)[0].mT.unflatten(-1, (4, 4)),
    "fourier": lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2),
    "gate": lambda x: conv(x) * conv(x)[..., :5, :].mean((-2, -1), keepdim=True),
    "gather": lambda x: conv(x)[..., torch.tensor([3, 1, 2])],
}  # fmt: skip


def compared(network: Callable[[Tensor], Tensor]) -> tuple[list[bool], bool, bool]:
    """Whether the windows are called exact, and whether they hold and equal what gradients reach, at every place."""
    x = torch.randn(1, 2, *SIDES, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    footprints = Footprints(x)
    with torch.no_grad(), footprints:
        seen = footprints.of(network(x))
    assert seen is not None
    x.requires_grad_()
    output = network(x)
    holds = equals = True
    for place in torch.cartesian_prod(*[torch.arange(size) for size in output.shape[2:]]).view(-1, 2).tolist():
        (slope,) = torch.autograd.grad(output[:, :, place[0], place[1]].sum(), x, retain_graph=True)
        reached = (slope.abs().sum((0, 1)) > 1e-14).nonzero()
        if not len(reached):
            continue
        for axis, window in enumerate(seen):
            first, last = window.reached(0 if window.axis is None else place[window.axis - 2])
            low, high = int(reached[:, axis].min()), int(reached[:, axis].max())
            holds &= first <= low <= high <= last
            equals &= (first, last) == (low, high)
    return [window.exact for window in seen], holds, equals


@pytest.mark.parametrize("name", sorted(EXACT))
def test_what_is_called_exact_is_what_gradients_reach(name: str) -> None:
    exact, _, equals = compared(EXACT[name])
    assert all(exact)
    assert equals


@pytest.mark.parametrize("name", sorted(BOUNDED))
def test_what_is_called_a_bound_holds_what_gradients_reach(name: str) -> None:
    exact, holds, equals = compared(BOUNDED[name])
    assert holds
    assert equals or not all(exact)


def test_a_dilated_kernel_over_the_border_is_off_by_less_than_its_dilation() -> None:
    x = torch.zeros(1, 2, *SIDES, dtype=torch.float64)
    with Footprints(x) as footprints:
        seen = footprints.of(conv(x, dilation=3, padding=4))
    assert seen is not None
    window = seen[0]
    assert window.exact
    taps = [[tap for tap in range(place - 4, place + 3, 3) if 0 <= tap < SIDES[0]] for place in range(13)]
    for place, read in enumerate(taps):
        first, last = window.reached(place)
        assert 0 <= read[0] - first < 3
        assert 0 <= last - read[-1] < 3


def test_what_does_not_depend_on_the_input_has_no_footprint() -> None:
    x = torch.zeros(1, 1, 4, 4)
    with Footprints(x) as footprints:
        other = torch.ones(3).exp()
        again = x + 0
    assert footprints.of(other) is None
    assert footprints.of(again) is not None
