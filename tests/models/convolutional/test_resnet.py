"""The residual network: published sizes and names, and the same outputs as another library on the same weights."""

import re

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.interop.resnet_names import from_hugging_face
from deepcanon.models.convolutional.resnet import ResNet
from deepcanon.train import fit

COUNTS = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032}
DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
every_depth = pytest.mark.parametrize("layers", sorted(COUNTS))


def norm(name: str, channels: int) -> dict[str, tuple[int, ...]]:
    vectors = {f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")}
    return {**vectors, f"{name}.num_batches_tracked": ()}


def torchvision_shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of torchvision's weights for ImageNet, written down from its published architecture."""
    shapes: dict[str, tuple[int, ...]] = {"conv1.weight": (64, 3, 7, 7), **norm("bn1", 64)}
    inputs = 64
    for stage, (count, planes) in enumerate(zip(DEPTHS[layers], (64, 128, 256, 512), strict=True), start=1):
        outputs = 4 * planes if layers == 50 else planes
        for place in range(count):
            block = f"layer{stage}.{place}"
            plain = [(planes, inputs, 3, 3), (planes, planes, 3, 3)]
            narrow = [(planes, inputs, 1, 1), (planes, planes, 3, 3), (outputs, planes, 1, 1)]
            for number, shape in enumerate(narrow if layers == 50 else plain, start=1):
                shapes |= {f"{block}.conv{number}.weight": shape, **norm(f"{block}.bn{number}", shape[0])}
            if place == 0 and inputs != outputs:
                shapes |= {f"{block}.downsample.0.weight": (outputs, inputs, 1, 1)}
                shapes |= norm(f"{block}.downsample.1", outputs)
            inputs = outputs
    return {**shapes, "fc.weight": (1000, inputs), "fc.bias": (1000,)}


def on_meta(layers: int) -> ResNet:
    with torch.device("meta"):
        return ResNet(channels=3, height=224, width=224, classes=1000, layers=layers)


@every_depth
def test_the_numbers_of_parameters_are_the_published_ones(layers: int) -> None:
    assert sum(parameter.numel() for parameter in on_meta(layers).parameters()) == COUNTS[layers]


@every_depth
def test_weights_under_torchvisions_names_load(layers: int) -> None:
    published = torchvision_shapes(layers)
    assert {name: tuple(value.shape) for name, value in on_meta(layers).state_dict().items()} == published
    weights = {name: torch.empty(shape, device="meta") for name, shape in published.items()}
    on_meta(layers).load_state_dict(weights, strict=True, assign=True)


def stirred(net: nn.Module) -> nn.Module:
    """Every weight and every running statistic away from where it begins."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in net.state_dict().items():
            if value.is_floating_point():
                noise = torch.randn(value.shape, generator=random, dtype=value.dtype)
                value.add_(noise.abs() if "running_var" in name else noise, alpha=0.1)
    return net


@every_depth
def test_its_outputs_are_those_of_hugging_face_on_the_same_weights(layers: int) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers, of deepcanon[oracles]")
    kind = "bottleneck" if layers == 50 else "basic"
    sizes = [wide * (32 if layers == 50 else 8) for wide in (1, 2, 4, 8)]
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=sizes, depths=list(DEPTHS[layers]), layer_type=kind, num_labels=5
    )
    torch.manual_seed(0)
    theirs = stirred(transformers.ResNetForImageClassification(config).double().eval())
    ours = ResNet(3, 70, 66, 5, layers=layers, base=8).double().eval()
    ours.load_state_dict(from_hugging_face(theirs.state_dict()))
    x = torch.randn(2, 3, 70, 66, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x).logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("side", "kernel", "last"), [(64, 3, 8), (65, 7, 3)])
def test_the_stem_suits_the_size_of_the_image(side: int, kernel: int, last: int) -> None:
    net = ResNet(3, side, 100, 5, base=2).eval()
    assert net.conv1.kernel_size == (kernel, kernel)
    sizes: list[Tensor] = []
    net.layer4.register_forward_hook(lambda _, inputs, output: sizes.append(output))
    net(torch.zeros(1, 3, side, 100))
    assert sizes[0].shape[-2] == last
    for stem in ("small", "large"):
        chosen = ResNet(3, side, 100, 5, base=2, stem=stem)
        assert chosen.conv1.kernel_size == ((3, 3) if stem == "small" else (7, 7))


def test_at_first_every_block_is_the_identity() -> None:
    torch.manual_seed(0)
    net = ResNet(1, 8, 8, 3, base=4).eval()
    h = torch.rand(2, 4, 8, 8)  # positive, as it is after a ReLU
    assert torch.equal(net.layer1(h), h)


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match=re.escape("a ResNet has 18, 34, 50 layers (got 20)")):
        ResNet(3, 32, 32, 10, layers=20)
    with pytest.raises(UsageError, match="stem must be one of auto, large, small"):
        ResNet(3, 32, 32, 10, stem="tall")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="base must be at least 1"):
        ResNet(3, 32, 32, 10, base=0)


@pytest.mark.slow
def test_a_narrow_one_reads_96_percent_of_real_digits() -> None:
    torch.manual_seed(0)
    result = fit(ResNet(1, 8, 8, 10, base=16), load_data("digits"), quiet=True)
    assert result.test["accuracy"] >= 0.96
