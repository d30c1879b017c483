"""All autoregressive models of images: every image by enumeration, causality by gradient, cached samples."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import Batch
from deepcanon.models.autoregressive import _pixels
from deepcanon.models.autoregressive._pixels import AutoregressiveImages
from deepcanon.models.autoregressive.conditional_pixelcnn import ConditionalPixelCNN
from deepcanon.models.autoregressive.gated_pixelcnn import GatedPixelCNN
from deepcanon.models.autoregressive.pixelcnn import PixelCNN
from deepcanon.models.autoregressive.pixelrnn import PixelRNN

Build = Callable[..., AutoregressiveImages[Any]]


def conditional(channels: int, height: int, width: int, levels: int, **sizes: Any) -> AutoregressiveImages[Any]:
    return ConditionalPixelCNN(channels, height, width, levels, classes=3, **sizes, reach=1).given(1)


def gated(channels: int, height: int, width: int, levels: int, **sizes: Any) -> AutoregressiveImages[Any]:
    return GatedPixelCNN(channels, height, width, levels, **sizes, reach=1)


def dilated(channels: int, height: int, width: int, levels: int, **sizes: Any) -> AutoregressiveImages[Any]:
    return PixelCNN(channels, height, width, levels, **sizes, dilations=(1, 2))


def dilated_gated(channels: int, height: int, width: int, levels: int, **sizes: Any) -> AutoregressiveImages[Any]:
    return GatedPixelCNN(channels, height, width, levels, **sizes, reach=1, dilations=(1, 2, 4))


def row(channels: int, height: int, width: int, levels: int, **sizes: Any) -> AutoregressiveImages[Any]:
    return PixelRNN(channels, height, width, levels, "row", **sizes)


MODELS: dict[str, Build] = {
    "pixelcnn": PixelCNN,
    "pixelcnn, dilated": dilated,
    "gated_pixelcnn": gated,
    "gated_pixelcnn, dilated": dilated_gated,
    "conditional_pixelcnn": conditional,
    "pixelrnn, row": row,
    "pixelrnn, diagonal": PixelRNN,
}
each_model = pytest.mark.parametrize("build", MODELS.values(), ids=MODELS.keys())


def model_of(build: Build, channels: int, height: int, width: int, levels: int, layers: int = 2) -> Any:
    """A model of random weights, large enough that no two images are equally probable."""
    torch.manual_seed(0)
    model = build(channels, height, width, levels, maps=4 * channels, layers=layers).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def every_image(channels: int, height: int, width: int, levels: int) -> Tensor:
    values = product(range(levels), repeat=channels * height * width)
    return torch.tensor(list(values), dtype=torch.float64).reshape(-1, channels, height, width)


def dependence(model: Any) -> Tensor:
    """Whether the logits of each value depend on each value, (D, D), with values in raster order, channels last."""
    x = torch.randint(0, model.levels, (1, *model.shape)).double().requires_grad_()
    logits = model.logits(x).square().sum(1)[0].permute(1, 2, 0).flatten()
    rows = [torch.autograd.grad(value, x, retain_graph=True)[0][0].permute(1, 2, 0).flatten() for value in logits]
    return torch.stack(rows) != 0


@each_model
@pytest.mark.parametrize(
    ("channels", "height", "width", "levels"), [(1, 3, 3, 2), (3, 2, 1, 3), (2, 1, 3, 3), (1, 1, 2, 17), (1, 1, 1, 256)]
)
def test_the_probabilities_of_all_images_sum_to_one(
    build: Build, channels: int, height: int, width: int, levels: int
) -> None:
    model = model_of(build, channels, height, width, levels)
    with torch.no_grad():
        log_prob = model.log_prob(every_image(channels, height, width, levels))
    assert abs(float(log_prob.exp().sum()) - 1) < 1e-12
    assert float(log_prob.std()) > 0.1


@each_model
@pytest.mark.parametrize(("channels", "height", "width"), [(1, 4, 5), (3, 3, 3), (2, 5, 2)])
def test_no_value_depends_on_itself_or_a_later_one(build: Build, channels: int, height: int, width: int) -> None:
    torch.manual_seed(0)
    model = build(channels, height, width, 4, maps=6 * channels, layers=4).double()
    values = channels * height * width
    before = torch.ones(values, values).tril(-1).bool()
    found = dependence(model)
    assert not (found & ~before).any()
    near = torch.zeros(values, values).bool()  # what any of them sees: the value before it at its pixel or in its row
    near[range(1, values), range(values - 1)] = torch.arange(1, values) % (channels * width) > 0
    assert found[near].all()


@each_model
@pytest.mark.parametrize(("channels", "height", "width"), [(1, 6, 5), (3, 4, 4), (2, 1, 4), (1, 5, 1)])
def test_pixel_by_pixel_the_logits_are_those_of_the_whole_image(
    build: Build, channels: int, height: int, width: int
) -> None:
    model = model_of(build, channels, height, width, 5)
    x = torch.randint(0, 5, (4, channels, height, width)).double()
    with torch.no_grad():
        wanted = model.logits(x)
        seen = torch.zeros_like(x)
        at = model.at_pixels(seen)
        for r, c, channel in product(range(height), range(width), range(channels)):
            torch.testing.assert_close(at(r, c)[:, :, channel], wanted[:, :, channel, r, c], rtol=1e-10, atol=1e-10)
            seen[:, channel, r, c] = model.scaled(x[:, channel, r, c])


@each_model
def test_log_prob_is_the_sum_of_the_log_probabilities_of_the_values(build: Build) -> None:
    model = model_of(build, 2, 3, 3, 4)
    x = torch.randint(0, 4, (5, 2, 3, 3)).double()
    with torch.no_grad():
        shares = model(x)
        torch.testing.assert_close(shares.sum(1), torch.ones_like(x))
        wanted = shares.gather(1, x.long().unsqueeze(1)).log().flatten(1).sum(1)
        torch.testing.assert_close(model.log_prob(x), wanted)
        torch.testing.assert_close(model.log_prob(x.flatten(1)), wanted)
        metrics = model.metrics(Batch(x))
    torch.testing.assert_close(metrics["bits_per_dim"], -wanted.mean() / (18 * math.log(2)))


@each_model
def test_samples_follow_the_probabilities_of_each_image(build: Build) -> None:
    model = model_of(build, 2, 1, 2, 2)
    x = every_image(2, 1, 2, 2)
    drawn = model.sample(20_000, generator=Generator().manual_seed(0))
    counts = (drawn.flatten(1) @ torch.tensor([8.0, 4, 2, 1]).double()).long().bincount(minlength=16)
    with torch.no_grad():
        expected = 20_000 * model.log_prob(x).exp()
    assert ((counts - expected).abs() < 5 * expected.sqrt() + 3).all()
    assert drawn.shape == (20_000, 2, 1, 2)
    again = model.sample(100, generator=Generator().manual_seed(3))
    assert torch.equal(again, model.sample(100, generator=Generator().manual_seed(3)))


def test_one_stack_has_a_blind_spot_and_two_stacks_have_none() -> None:
    """However deep, a PixelCNN does not see some pixels above to the right: a row up leads it a column to the right."""
    torch.manual_seed(0)
    side = 9
    before = torch.ones(side**2, side**2).tril(-1).bool()
    found = dependence(PixelCNN(1, side, side, 2, maps=8, layers=9).double())
    wanted = torch.zeros_like(before)
    for p, s in product(range(side**2), repeat=2):
        up, right = p // side - s // side, s % side - p % side
        # 7x7 pixels once lead three columns to the right for the first row up, then 3x3 one for each
        wanted[p, s] = (up == 0 and right < 0) or (up > 0 and right <= up + 2)
    assert torch.equal(found, wanted)
    assert 0.02 < (~found & before).sum() / before.sum() < 0.2
    assert torch.equal(dependence(GatedPixelCNN(1, side, side, 2, maps=8, layers=9, reach=1).double()), before)


@pytest.mark.slow
def test_dilations_reach_farther_with_as_many_weights_and_two_stacks_still_have_no_blind_spot() -> None:
    """Six layers of one pixel each lead seven rows up; with dilations of 1, 2 and 4 fifteen."""
    torch.manual_seed(0)
    side = 15
    before = torch.ones(side**2, side**2).tril(-1).bool()
    near, far = (
        GatedPixelCNN(1, side, side, 2, maps=8, layers=6, reach=1, dilations=dilations).double()
        for dilations in ((1,), (1, 2, 4))
    )
    assert sum(p.numel() for p in near.parameters()) == sum(p.numel() for p in far.parameters())
    assert torch.equal(dependence(far)[-side:], before[-side:])
    rows_up = torch.arange(side**2) // side
    # Six layers, and a row more since the vertical stack is shifted down.
    assert not dependence(near)[-1][rows_up < side - 8].any()


@pytest.mark.slow
def test_what_a_pixelrnn_sees() -> None:
    """A row LSTM sees a triangle above; a diagonal one all but the last value of the row above, unless it is near."""
    torch.manual_seed(0)
    side = 9
    before = torch.ones(side**2, side**2).tril(-1).bool()
    unseen = before & ~dependence(PixelRNN(1, side, side, 2, maps=8, layers=2).double())
    wanted = torch.zeros_like(before)
    for p, s in product(range(side**2), repeat=2):
        wanted[p, s] = s % side == side - 1 and p // side - s // side == 1 and s % side - p % side > 3
    assert torch.equal(unseen, wanted)
    row_unseen = before & ~dependence(row(1, side, side, 2, maps=8, layers=1).double())
    assert row_unseen.sum() > unseen.sum()
    assert row_unseen[side, side - 1]  # the far end of the row above
    assert not row_unseen[6 * side + 4, : 2 * side].any()  # but from the middle, all of the first rows


@each_model
def test_log_probs_of_many_images_are_computed_part_by_part(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """256 gray levels of a test split of 28x28 pixels would be gigabytes of logits."""
    model = model_of(build, 1, 3, 2, 5)
    x = torch.randint(0, 5, (11, 1, 3, 2)).double()
    at_once, rows = model.log_prob(x), list[int]()
    monkeypatch.setattr(_pixels, "LOGITS", 4 * 5 * 6)
    model.net.register_forward_pre_hook(lambda net, given: rows.append(len(given[0])))
    torch.testing.assert_close(model.log_prob(x), at_once)
    assert rows == [4, 4, 3]
    assert model.log_prob(x[:0]).shape == (0,)


def test_parts_of_many_images_keep_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ConditionalPixelCNN(1, 3, 2, 5, classes=3, maps=4, layers=2, reach=1).double()
    x, classes = torch.randint(0, 5, (11, 1, 3, 2)).double(), torch.arange(11) % 3
    at_once = model.log_prob(x, context=classes)
    monkeypatch.setattr(_pixels, "LOGITS", 4 * 5 * 6)
    torch.testing.assert_close(model.log_prob(x, context=classes), at_once)
