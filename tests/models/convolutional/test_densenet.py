"""The densely connected network: published sizes and names, its connections, and what it learns."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.models.convolutional.densenet import DenseNet
from deepcanon.train import fit

PUBLISHED = {
    121: ((6, 12, 24, 16), 32, 7_978_856),
    169: ((6, 12, 32, 32), 32, 14_149_480),
    201: ((6, 12, 48, 32), 32, 20_013_928),
    161: ((6, 12, 36, 24), 48, 28_681_000),
}


def on_meta(layers: int) -> DenseNet:
    blocks, growth, _ = PUBLISHED[layers]
    with torch.device("meta"):
        return DenseNet(channels=3, height=224, width=224, classes=1000, blocks=blocks, growth=growth)


@pytest.mark.parametrize("layers", sorted(PUBLISHED))
def test_the_numbers_of_parameters_are_the_published_ones(layers: int) -> None:
    assert sum(parameter.numel() for parameter in on_meta(layers).parameters()) == PUBLISHED[layers][2]


@pytest.mark.slow
def test_names_and_shapes_are_those_of_torchvision() -> None:
    shapes = {name: tuple(value.shape) for name, value in on_meta(121).state_dict().items()}
    assert len(shapes) == 120 + 121 * 5 + 2  # convolutions, normalizations, the linear map
    for name, shape in {
        "features.conv0.weight": (64, 3, 7, 7),
        "features.norm0.running_var": (64,),
        "features.denseblock1.denselayer1.norm1.weight": (64,),
        "features.denseblock1.denselayer1.conv1.weight": (128, 64, 1, 1),
        "features.denseblock1.denselayer6.norm2.bias": (128,),
        "features.denseblock2.denselayer12.conv2.weight": (32, 128, 3, 3),
        "features.transition1.norm.weight": (256,),
        "features.transition3.conv.weight": (512, 1024, 1, 1),
        "features.denseblock4.denselayer16.conv1.weight": (128, 992, 1, 1),
        "features.norm5.num_batches_tracked": (),
        "classifier.weight": (1000, 1024),
        "classifier.bias": (1000,),
    }.items():
        assert shapes[name] == shape


def test_a_layer_gets_all_feature_maps_before_it_as_in_the_paper() -> None:
    torch.manual_seed(0)
    model = DenseNet(channels=2, height=8, width=8, classes=3, blocks=(2, 2), growth=3).double().eval()
    weights = model.state_dict()
    for name in weights:
        if name.endswith("running_var"):
            weights[name].uniform_(0.5, 2)
        elif name.endswith(("running_mean", "norm1.bias", "norm2.bias")):
            weights[name].normal_()

    def activated(name: str, x: Tensor) -> Tensor:
        mean, var, weight, bias = (
            weights[f"features.{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(x, mean, var, weight, bias).relu()

    def convolved(name: str, x: Tensor, padding: int = 0) -> Tensor:
        return F.conv2d(x, weights[f"features.{name}.weight"], padding=padding)

    x = torch.randn(4, 2, 8, 8, dtype=torch.float64)
    h = activated("norm0", convolved("conv0", x, 1))
    for block in (1, 2):
        maps = [h]
        for place in (1, 2):
            layer = f"denseblock{block}.denselayer{place}"
            new = convolved(f"{layer}.conv1", activated(f"{layer}.norm1", torch.cat(maps, 1)))
            maps.append(convolved(f"{layer}.conv2", activated(f"{layer}.norm2", new), 1))
        h = torch.cat(maps, 1)
        if block == 1:
            h = F.avg_pool2d(convolved("transition1.conv", activated("transition1.norm", h)), 2)
    pooled = activated("norm5", h).mean((2, 3))
    torch.testing.assert_close(model(x), F.linear(pooled, weights["classifier.weight"], weights["classifier.bias"]))


@pytest.mark.parametrize(("height", "width"), [(1, 9), (5, 3), (100, 70)])
def test_images_of_any_size_pass(height: int, width: int) -> None:
    model = DenseNet(channels=1, height=height, width=width, classes=2, blocks=(1, 1, 1, 1), growth=2)
    assert model(torch.randn(2, 1, height, width)).shape == (2, 2)


@pytest.mark.slow
def test_it_reads_digits() -> None:
    torch.manual_seed(0)
    model = DenseNet(channels=1, height=8, width=8, classes=10, blocks=(3, 3), growth=8)
    assert fit(model, load_data("digits"), quiet=True, epochs=4).test["accuracy"] > 0.95


def test_mistakes_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="at least one block"):
        DenseNet(1, 8, 8, classes=2, blocks=())
    with pytest.raises(UsageError, match="stem must be one of auto, large, small"):
        DenseNet(1, 8, 8, classes=2, stem="tiny")  # type: ignore[arg-type]
