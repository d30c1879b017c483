"""Grad-CAM: its identity with CAM, the sum that is the score, and what it does when there is nothing to see."""

from __future__ import annotations

from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.insights._engines.layers import last_map, outputs_of
from deepcanon.insights.grad_cam import cam_maps, grad_cam, grad_cam_maps, randomized, rank_correlation
from deepcanon.models.convolutional.cnn import CNN
from deepcanon.models.convolutional.densenet import DenseNet
from deepcanon.models.convolutional.resnet import ResNet
from deepcanon.pictures.legibility import faults


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def averaging() -> Any:
    """A network that averages its last maps."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(inplace=True), nn.Conv2d(4, 5, 3, padding=1), nn.BatchNorm2d(5),
        nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(5, 3),
    ).double()  # fmt: skip


def ours(kind: type[Any], **settings: Any) -> Any:
    torch.manual_seed(0)
    model = kind(1, 16, 16, 3, **settings).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)  # no branch is switched off
    return model


NETWORKS = {
    "averaging": (averaging, 2),
    "resnet": (lambda: ours(ResNet, base=2), 1),
    "densenet": (lambda: ours(DenseNet, blocks=(2, 2), growth=2), 1),
}


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_of_an_averaging_network_it_is_the_positive_part_of_cam(name: str) -> None:
    build, channels = NETWORKS[name]
    model, x = build(), images(4, channels, 16, 16)
    for number in range(3):
        classes = torch.full((4,), number)
        gradient, direct = grad_cam_maps(model, (x,), classes=classes), cam_maps(model, (x,), classes=classes)
        positions = direct.maps[0].numel()
        assert positions > 1
        torch.testing.assert_close(gradient.maps, direct.maps.relu() / positions, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_score_is_the_mean_of_cam_and_the_bias(name: str) -> None:
    build, channels = NETWORKS[name]
    model, x = build(), images(4, channels, 16, 16)
    found = cam_maps(model, (x,))
    *_, linear = (module for module in model.modules() if isinstance(module, nn.Linear))
    score = found.maps.mean((-2, -1)) + linear.bias[found.classes]
    torch.testing.assert_close(score, model.eval()(x).amax(-1), rtol=1e-10, atol=1e-12)


def test_it_is_the_mean_slope_that_weights_the_maps() -> None:
    model, x = ours(CNN, hidden=(3, 4)), images(2, 1, 16, 16)
    found = grad_cam_maps(model, (x,), layer="stages.0")
    activations = model.eval().stages[0](x).detach().requires_grad_()

    def score(one: int, given: Tensor) -> Tensor:
        maps = model.summary(model.stages[1](given))
        logits: Tensor = model.linear(maps.flatten(1))
        return logits[one, found.classes[one]]

    for one in range(2):
        slopes = torch.zeros(3, dtype=torch.float64)
        for channel in range(3):  # a derivative along the channel as a whole, by differences
            step = torch.zeros_like(activations)
            step[one, channel] = 1e-6
            with torch.no_grad():
                difference = score(one, activations + step) - score(one, activations - step)
            slopes[channel] = difference / 2e-6 / activations[one, channel].numel()
        wanted = torch.einsum("k,khw->hw", slopes, activations[one]).relu()
        torch.testing.assert_close(found.maps[one], wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        (averaging(), "4"),
        (ours(ResNet, base=2), "layer4"),
        (ours(DenseNet, blocks=(2, 2), growth=2), "features"),
        (ours(CNN, hidden=(3, 4)), "stages"),
        (ours(CNN, hidden=(3, 4, 4, 4)), "stages.3.0"),  # whose pooling leaves a single place
    ],
    ids=["averaging", "resnet", "densenet", "cnn", "deep cnn"],
)
def test_it_finds_the_last_map_by_itself(model: nn.Module, layer: str) -> None:
    channels = next(module for module in model.modules() if isinstance(module, nn.Conv2d)).in_channels
    assert last_map(outputs_of(model, (images(2, channels, 16, 16),))).name == layer


def test_a_layer_that_is_overwritten_in_place_keeps_its_own_values() -> None:
    model, x = averaging(), images(2, 2, 9, 9)
    found = grad_cam_maps(model, (x,), layer="0")
    safe = averaging()
    safe[1] = nn.ReLU()
    torch.testing.assert_close(found.maps, grad_cam_maps(safe, (x,), layer="0").maps)


def test_the_random_model_has_forgotten_everything_and_the_model_nothing() -> None:
    model = averaging()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.register_parameter("own", nn.Parameter(torch.arange(6.0)))
    state = torch.get_rng_state()
    control: Any = randomized(model, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    changed = {name for name, value in control.state_dict().items() if not torch.equal(value, model.state_dict()[name])}
    assert {"0.weight", "2.weight", "8.weight", "8.bias", "own"} <= changed
    assert sorted(control.own.tolist()) == list(range(6))


def test_ranks_correlate_as_in_scipy() -> None:
    first, second = images(5, 5).round(), images(5, 5).square().round()  # with equal values among them
    found = rank_correlation(first, second)
    assert found == pytest.approx(scipy.stats.spearmanr(first.flatten(), second.flatten()).statistic, abs=1e-12)
    assert rank_correlation(first, torch.zeros(5, 5)) is None


@pytest.mark.slow
def test_the_finding_names_the_prediction_and_leaves_the_model_alone() -> None:
    model, x = averaging(), images(3, 2, 9, 9)
    state = torch.get_rng_state()
    found = grad_cam(model, Labeled(x, torch.tensor([0, 1, 2])))
    assert model.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    numbers = found.numbers
    assert numbers["predicted_class"] == numbers["explained_class"] == model.eval()(x).argmax(-1).tolist()
    assert numbers["true_class"] == [0, 1, 2]
    assert numbers["probability"] == pytest.approx(model(x).softmax(-1).amax(-1).tolist())
    assert numbers["cam"] is not None
    assert found.says[0] == "The maps are those of 4, 4x4 positions."
    coarse = grad_cam(model, Batch(x[..., :5, :5])).says[0]
    assert coarse == "The maps are those of 4, 2x2 positions. So few show little; an earlier layer has more."
    assert numbers["control"] != numbers["grad_cam"]
    rows = [axes.get_ylabel() for axes in found.figure.axes if axes.get_ylabel()]
    assert rows == ["image", "Grad-CAM", "CAM", "random weights"]
    assert "predicted class" in found.figure.axes[0].get_title()
    assert faults(found.figure) == []
    names = ("cat", "dog", "a very long name of a class")
    named = grad_cam(model, Labeled(x, torch.tensor([0, 1, 2])), labels=names).figure
    predicted = names[numbers["predicted_class"][1]][:15]
    assert named.axes[1].get_title().startswith(f"predicted {predicted}")
    assert "\ntrue dog\n" in named.axes[1].get_title()
    assert "\ntrue a very long nam…\n" in named.axes[2].get_title()


def test_a_single_score_is_no_choice_among_classes() -> None:
    model, x = averaging(), images(2, 2, 9, 9)
    model[8] = nn.Linear(5, 1).double()
    found = grad_cam(model, Batch(x))
    assert found.numbers["probability"] is None
    assert found.numbers["score"] == pytest.approx(model.eval()(x).squeeze(-1).tolist())
    assert found.figure.axes[0].get_title().startswith("score ")


def test_an_empty_map_is_reported() -> None:
    model, x = averaging(), images(2, 2, 9, 9)
    with torch.no_grad():
        model[8].weight[1] = -1.0
    found = grad_cam(model, Batch(x), target=1)
    assert found.numbers["empty"] == [True, True]
    assert found.numbers["explained_class"] == [1, 1]
    assert "2 of 2 maps are empty" in found.says[1]
    assert "cannot be compared" in found.says[2]
    assert [text.get_text() for axes in found.figure.axes for text in axes.texts].count("empty") >= 2


def test_maps_that_random_weights_draw_too_are_reported() -> None:
    model: Any = nn.Sequential(nn.Identity(), nn.Conv2d(1, 1, 1, bias=False), nn.Flatten(), nn.Linear(36, 2))
    with torch.no_grad():
        for weight in (model[1].weight, model[3].weight):
            weight.fill_(1.0)
    seeds = [grad_cam(model, Batch(images(1, 1, 6, 6).float().abs()), seed=seed) for seed in range(3)]
    likeness = [found.numbers["mean_likeness_to_control"] for found in seeds]
    assert any(value is not None and value > 0.99 for value in likeness)  # the map is the image, whatever the weights
    for value, found in zip(likeness, seeds, strict=True):
        if value is not None:
            assert ("show the image more" in found.says[-1]) == (value >= 0.5)


def test_what_cannot_be_explained_is_refused() -> None:
    model, batch = averaging(), Batch(images(2, 2, 9, 9))
    with pytest.raises(UsageError, match="there are 0, 1, 2"):
        grad_cam(model, batch, layer="nowhere")
    with pytest.raises(UsageError, match="numbered from 0 to 2"):
        grad_cam(model, batch, target=3)
    with pytest.raises(UsageError, match="is not a feature map"):
        grad_cam(model, batch, layer="8")
    with pytest.raises(UsageError, match="scores"):
        grad_cam(nn.Sequential(nn.Conv2d(2, 2, 3)).double(), batch)
    with pytest.raises(UsageError, match="CAM needs a network with global average pooling"):
        cam_maps(ours(CNN, hidden=(3, 4)), (images(2, 1, 16, 16),))
