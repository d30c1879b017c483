"""U-Net: the same function as that of diffusers with the same weights; sizes, conditions and errors."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.nn.time_mlp import time_features
from deepcanon.nn.u_net import ConvBlock, PixelAttention, UNet


def stirred(net: UNet) -> UNet:
    """The network with weights that are nowhere zero."""
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.2)
    return net


class OurTimes(nn.Module):
    def forward(self, t: Tensor) -> Tensor:
        return time_features(t.double(), 8)


@pytest.mark.slow
def test_it_is_the_network_of_diffusers() -> None:
    diffusers = pytest.importorskip("diffusers", reason="needs diffusers, of deepcanon[oracles]")
    torch.manual_seed(0)
    net = stirred(UNet((2, 10, 6), (8, 16))).double()
    peer: Any = diffusers.UNet2DModel(
        in_channels=2, out_channels=2, block_out_channels=(8, 16), norm_num_groups=8, attention_head_dim=8,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    ).double()  # fmt: skip
    peer.time_proj = OurTimes()

    def copy(theirs: Any, ours: Any) -> None:
        theirs.load_state_dict(ours.state_dict())

    def copy_block(theirs: Any, ours: Any) -> None:
        assert isinstance(ours, ConvBlock)
        for name, part in (("norm1", ours.norm1), ("conv1", ours.conv1), ("norm2", ours.norm2), ("conv2", ours.conv2)):
            copy(getattr(theirs, name), part)
        copy(theirs.time_emb_proj, ours.time)
        if not isinstance(ours.skip, nn.Identity):
            copy(theirs.conv_shortcut, ours.skip)

    copy(peer.time_embedding.linear_1, net.time[0])
    copy(peer.time_embedding.linear_2, net.time[2])
    copy(peer.conv_in, net.first)
    down, up = iter(net.down), iter(net.up)
    for level, block in enumerate(peer.down_blocks):
        for resnet in block.resnets:
            copy_block(resnet, next(down))
        if level == 0:
            copy(block.downsamplers[0].conv, next(down))
    first, attention, last = net.middle
    assert isinstance(attention, PixelAttention)
    copy_block(peer.mid_block.resnets[0], first)
    copy_block(peer.mid_block.resnets[1], last)
    theirs = peer.mid_block.attentions[0]
    copy(theirs.group_norm, attention.norm)
    copy(theirs.to_out[0], attention.outer)
    for part, weight, bias in zip(
        (theirs.to_q, theirs.to_k, theirs.to_v),
        attention.inner.weight.chunk(3),
        attention.inner.bias.chunk(3),
        strict=True,
    ):
        part.load_state_dict({"weight": weight, "bias": bias})
    for level, block in enumerate(peer.up_blocks):
        for resnet in block.resnets:
            copy_block(resnet, next(up))
        if level == 0:
            copy(block.upsamplers[0].conv, next(up))
    copy(peer.conv_norm_out, net.last[0])
    copy(peer.conv_out, net.last[2])
    x, t = torch.randn(3, 2, 10, 6, dtype=torch.float64), torch.tensor([3.0, 500.0, 999.0])
    with torch.no_grad():
        wanted = peer(x, t).sample
        assert torch.allclose(net(x.flatten(1), t.double()).reshape(x.shape), wanted, atol=1e-10)
    assert sum(p.numel() for p in net.parameters()) == sum(p.numel() for p in peer.parameters())


@pytest.mark.parametrize("size", [(8, 8), (7, 5), (28, 28)])
def test_images_of_any_size_come_back_as_such(size: tuple[int, int]) -> None:
    net = stirred(UNet((1, *size), (4, 8, 8), outputs=2))
    with torch.no_grad():
        one, all_at_once = (
            net(torch.ones(2, size[0] * size[1]), t) for t in (torch.tensor([5.0]), torch.full((2,), 5.0))
        )
    assert one.shape == (2, 2 * size[0] * size[1])
    assert torch.allclose(one, all_at_once, atol=1e-5)


def test_time_and_class_matter() -> None:
    torch.manual_seed(0)
    net = stirred(UNet((1, 4, 4), (4, 8), classes=2))
    x, t = torch.randn(1, 16), torch.tensor([5.0])
    with torch.no_grad():
        answers = [net(x, t + later, torch.tensor([label])) for later in (0, 300) for label in (0, 1, 2)]
    assert len({tuple(answer[0].tolist()) for answer in answers}) == 6


def test_more_resolutions_than_pixels_are_refused() -> None:
    with pytest.raises(UsageError, match="2x8 pixels are too few; give fewer widths"):
        UNet((1, 2, 8), (4, 4, 4))
