"""Networks of pixels: which pixels and channels a value depends on, against raster order by definition."""

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.nn.pixel_net import GatedPixelNet, PixelNet, ResidualConv


def dependence(net: GatedPixelNet, channels: int, height: int, width: int) -> Tensor:
    """Whether the logits of each value depend on each value, (D, D), with values in raster order, channels last."""
    x = torch.randn(1, channels, height, width, dtype=torch.float64, requires_grad=True)
    logits = net(x).square().sum(1)[0].permute(1, 2, 0).flatten()
    rows = [torch.autograd.grad(value, x, retain_graph=True)[0][0].permute(1, 2, 0).flatten() for value in logits]
    return torch.stack(rows) != 0


@pytest.mark.parametrize(("channels", "height", "width", "reach"), [(1, 5, 5, 1), (3, 4, 4, 1), (2, 3, 6, 2)])
def test_every_value_depends_on_all_before_it_and_on_no_other(
    channels: int, height: int, width: int, reach: int
) -> None:
    torch.manual_seed(0)
    net = GatedPixelNet(channels, 4, width=6 * channels, layers=6, reach=reach).double()
    before = torch.ones(channels * height * width, channels * height * width).tril(-1).bool()
    assert torch.equal(dependence(net, channels, height, width), before)


def test_few_layers_do_not_reach_the_corners_and_see_nothing_later() -> None:
    torch.manual_seed(0)
    found = dependence(GatedPixelNet(1, 2, width=4, layers=1, reach=1).double(), 1, 4, 4)
    before = torch.ones(16, 16).tril(-1).bool()
    assert not (found & ~before).any()
    assert not found[15, 0]
    assert found[10].nonzero().flatten().tolist() == [1, 2, 3, 5, 6, 7, 9]  # two rows above, to both sides, and left


def test_masks_are_not_saved_and_widths_are_multiples_of_the_channels() -> None:
    names = GatedPixelNet(3, 2, width=6, layers=2, reach=1).state_dict()
    assert not [name for name in names if "mask" in name]
    with pytest.raises(UsageError, match="a multiple"):
        GatedPixelNet(3, 2, width=4, layers=2, reach=1)


def test_a_residual_block_without_weights_changes_nothing() -> None:
    net = PixelNet(1, 2, 4, [ResidualConv]).double()
    for parameter in net.layers.parameters():
        torch.nn.init.zeros_(parameter)
    x = torch.randn(2, 1, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(net(x), net.head(net.first(x)))
