"""What all networks of images share: smoothed labels, heads, the order of memory, precision, images that fit."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import special, stats
from torch import Tensor, nn

from deepcanon.catalogue import find
from deepcanon.core import Blueprint, DataError, Labeled, UsageError, describe
from deepcanon.data import from_tensors
from deepcanon.models.attention.vit import ViT
from deepcanon.models.convolutional._convolutional import ImagePredictor
from deepcanon.models.convolutional.cnn import CNN
from deepcanon.models.convolutional.densenet import DenseNet
from deepcanon.models.convolutional.resnet import ResNet
from deepcanon.train import fit

every_net = pytest.mark.parametrize("name", ["cnn", "resnet"])


def small(name: str, smoothing: float) -> ImagePredictor:
    if name == "cnn":
        return CNN(3, 10, 12, 4, smoothing=smoothing)
    return ResNet(3, 10, 12, 4, base=8, smoothing=smoothing)


def batch(rows: int = 6, dtype: torch.dtype = torch.float64) -> Labeled:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, 10, 12, generator=random, dtype=torch.float64).to(dtype)
    return Labeled(x, torch.arange(rows) % 4)


def stirred(name: str, smoothing: float = 0.1) -> ImagePredictor:
    """A net whose every weight matters, and whose running statistics have seen something."""
    torch.manual_seed(0)
    net = small(name, smoothing).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        net(batch(8).x)
    return net


@every_net
def test_the_terms_sum_to_torchs_smoothed_cross_entropy_in_evaluation_too(name: str) -> None:
    data = batch()
    for net in (stirred(name), stirred(name).eval()):
        with torch.no_grad():
            terms = net.loss(data)
            wanted = F.cross_entropy(net(data.x), data.y, label_smoothing=0.1)
        assert list(terms) == ["nll", "smoothing"]
        torch.testing.assert_close(terms["nll"] + terms["smoothing"], wanted, rtol=1e-12, atol=1e-12)


@every_net
def test_class_weights_count_in_training_only(name: str) -> None:
    data, weights = batch(), torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    net = stirred(name)
    net.class_weight = weights
    with torch.no_grad():
        logits = net(data.x)
        smooth = F.cross_entropy(logits, data.y, label_smoothing=0.1, reduction="none")
        torch.testing.assert_close(sum(net.loss(data).values()), (weights[data.y] * smooth).mean())
        net.eval()
        torch.testing.assert_close(
            sum(net.loss(data).values()), F.cross_entropy(net(data.x), data.y, label_smoothing=0.1)
        )


@every_net
def test_without_smoothing_the_loss_is_the_cross_entropy(name: str) -> None:
    data = batch()
    for net in (stirred(name, smoothing=0.0), stirred(name, smoothing=0.0).eval()):
        with torch.no_grad():
            terms, wanted = net.loss(data), F.cross_entropy(net(data.x), data.y)
        assert list(terms) == ["nll"]
        torch.testing.assert_close(terms["nll"], wanted, rtol=1e-12, atol=1e-12)


def test_the_weights_that_are_kept_are_the_best_by_the_smoothed_loss() -> None:
    """The likelihood alone may be best early, where the accuracy is lower, since it is not what is trained."""
    data = from_tensors(batch(24).x.float(), batch(24).y, valid=(batch(12).x.float(), batch(12).y))
    for smoothing, watched in ((0.1, "loss"), (0.0, "nll")):
        torch.manual_seed(0)
        result = fit(small("cnn", smoothing), data, epochs=2, quiet=True)
        assert result.weights.startswith(f"best by validation {watched},")
        assert result.valid["nll"] > 0


def orders(net: nn.Module, x: Tensor) -> Iterator[bool]:
    """Whether each convolution is given images whose channels lie last."""
    seen: list[bool] = []
    hooks = [
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].stride(1) == 1))
        for layer in net.modules()
        if isinstance(layer, nn.Conv2d)
    ]
    net(x)
    for hook in hooks:
        hook.remove()
    return iter(seen)


@every_net
@pytest.mark.parametrize("channels", [1, 3])
def test_channels_lie_last_inside_whatever_comes_in(name: str, channels: int) -> None:
    net = CNN(channels, 16, 16, 2) if name == "cnn" else ResNet(channels, 16, 16, 2, base=8)
    x = torch.randn(2, channels, 16, 16)
    for given in (x, x.contiguous(memory_format=torch.channels_last)):
        assert all(orders(net, given))


@every_net
def test_the_order_in_memory_changes_neither_output_nor_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch()
    last, first = stirred(name), stirred(name)
    sum(last.loss(data).values(), start=torch.zeros(())).backward()
    monkeypatch.setattr(ImagePredictor, "_images", lambda self, x: x)
    assert not any(orders(first, data.x))
    first.load_state_dict(stirred(name).state_dict())
    sum(first.loss(data).values(), start=torch.zeros(())).backward()
    torch.testing.assert_close(first.eval()(data.x), last.eval()(data.x), rtol=1e-9, atol=1e-9)
    for (weight, a), b in zip(first.named_parameters(), last.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-10, msg=weight)
        assert a.is_contiguous()


@every_net
def test_an_image_in_a_batch_gets_the_prediction_it_gets_alone(name: str) -> None:
    net, x = stirred(name).eval(), batch().x
    with torch.no_grad():
        alone = torch.cat([net(x[i : i + 1]) for i in range(len(x))])
        torch.testing.assert_close(net(x), alone, rtol=1e-10, atol=1e-10)


@every_net
def test_bfloat16_gives_nearly_the_loss_of_float32(name: str) -> None:
    net, data = stirred(name).float(), batch(64, torch.float32)
    with torch.no_grad():
        plain = net.loss(data)["nll"]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = net.loss(data)["nll"]
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(plain.item(), rel=2e-2)
    assert half.item() != plain.item()


@every_net
def test_a_batch_of_one_can_be_learned_from(name: str) -> None:
    net = CNN(1, 4, 4, 2) if name == "cnn" else ResNet(1, 4, 4, 2, base=4)
    data = Labeled(torch.randn(1, 1, 4, 4), torch.tensor([1]))
    terms = net.loss(data)
    sum(terms.values(), start=torch.zeros(())).backward()
    assert all(value.isfinite() for value in terms.values())


@every_net
def test_rows_of_pixels_are_taken_as_images_and_other_sizes_refused(name: str) -> None:
    net, x = stirred(name).eval(), batch().x
    assert torch.equal(net(x.flatten(1)), net(x))
    with pytest.raises(
        DataError, match=r"images of shape \(3, 10, 12\), channels first, got the shape \(6, 3, 12, 9\)"
    ):
        net(torch.zeros(6, 3, 12, 9))


@every_net
def test_the_filters_are_those_of_the_first_convolution(name: str) -> None:
    net = stirred(name)
    filters, side = net.filters(), 5 if name == "cnn" else 3
    assert tuple(filters.shape) == (8, 3, side, side)
    assert not filters.requires_grad
    assert torch.equal(filters, next(iter(net.parameters())))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"classes": 1}, "classes must be at least 2"),
        ({"channels": 0}, "channels must be at least 1"),
        ({"smoothing": 1.0}, "smoothing is a share of the label"),
    ],
)
@every_net
def test_arguments_are_checked(name: str, arguments: dict[str, float], words: str) -> None:
    cls = CNN if name == "cnn" else ResNet
    sizes: dict[str, float] = {"channels": 1, "height": 8, "width": 8, "classes": 3}
    with pytest.raises(UsageError, match=words):
        cls(**{**sizes, **arguments})  # type: ignore[arg-type]


NETS = ("cnn", "resnet", "densenet", "vit")
TARGETS = 2


def of_targets(name: str, head: str | None) -> ImagePredictor:
    """A small net of real targets in double precision, in eval mode."""
    torch.manual_seed(0)
    makers: dict[str, Callable[[], ImagePredictor]] = {
        "cnn": lambda: CNN(1, 6, 6, targets=TARGETS, head=head, hidden=(4, 4)),
        "resnet": lambda: ResNet(1, 6, 6, targets=TARGETS, head=head, base=2),
        "densenet": lambda: DenseNet(1, 6, 6, targets=TARGETS, head=head, blocks=(2, 1), growth=2),
        "vit": lambda: ViT(1, 6, 6, targets=TARGETS, head=head, layers=1, heads=2, embedding=8),
    }
    return makers[name]().double().eval()


def oracle(net: ImagePredictor, head: str, x: Tensor) -> Any:
    """Scipy's distribution of the targets, by what the docstrings say of the outputs."""
    with torch.no_grad():
        outputs = net(x).numpy()
    if head == "bernoulli":
        return stats.bernoulli(special.expit(outputs))
    if head == "gaussian":
        return stats.norm(outputs, 1e-3 + np.exp(net.state_dict()["output_head.log_scale"].numpy()))
    first, second = np.split(outputs, 2, axis=1)
    if head == "heteroscedastic":
        return stats.norm(first, 1e-3 + np.log1p(np.exp(second)))
    return stats.gumbel_r(first, np.exp(second))


@pytest.mark.parametrize("head", ["gaussian", "heteroscedastic", "bernoulli", "gumbel"])
@pytest.mark.parametrize("name", NETS)
def test_every_net_of_images_has_scipys_distribution_of_the_targets(name: str, head: str) -> None:
    net, random = of_targets(name, head), torch.Generator().manual_seed(0)
    x = torch.randn(5, 1, 6, 6, generator=random, dtype=torch.float64)
    y = torch.randn(5, TARGETS, generator=random, dtype=torch.float64)
    y = (y > 0).double() if head == "bernoulli" else y
    wanted = oracle(net, head, x)
    density = wanted.logpmf if head == "bernoulli" else wanted.logpdf
    for terms in (net.loss(Labeled(x, y)), net.metrics(Labeled(x, y))):
        assert terms.keys() == {"nll"}
        assert terms["nll"].item() == pytest.approx(-density(y.numpy()).sum(-1).mean(), rel=1e-9)
    np.testing.assert_allclose(net.predict(x, how="mean").numpy(), wanted.mean(), rtol=1e-9)
    mode = {"bernoulli": lambda: wanted.mean() > 0.5, "gumbel": lambda: wanted.ppf(np.exp(-1))}.get(head, wanted.mean)
    np.testing.assert_allclose(net.predict(x).numpy(), mode(), rtol=1e-6, atol=1e-9)
    drawn = net.predict(x[:1].expand(1500, -1, -1, -1), how="sample", generator=random).numpy()[:, 0]
    if head == "bernoulli":
        assert stats.binomtest(int(drawn.sum()), len(drawn), wanted.mean()[0, 0]).pvalue > 1e-3
    else:
        assert stats.kstest(drawn, lambda value: wanted.cdf(np.c_[value, value][:, None])[:, 0, 0]).pvalue > 1e-3


@pytest.mark.parametrize("name", NETS)
def test_without_a_head_targets_have_the_squared_error(name: str) -> None:
    net, x = of_targets(name, None), torch.randn(5, 1, 6, 6, dtype=torch.float64)
    y = torch.randn(5, TARGETS, dtype=torch.float64)
    wanted = (net(x) - y).square().sum() / 5
    torch.testing.assert_close(net.loss(Labeled(x, y)), {"mse": wanted})
    torch.testing.assert_close(net.metrics(Labeled(x, y))["mse"], wanted)
    assert torch.equal(net.predict(x), net(x))
    assert net.train().loss(Labeled(x, y)).keys() == {"mse"}  # whatever is smoothed in training, targets are not


@pytest.mark.parametrize("name", NETS)
def test_a_net_with_a_head_is_built_again_from_its_description(name: str) -> None:
    net = of_targets(name, "gaussian")
    again = Blueprint.from_json(json.loads(json.dumps(describe(net))), find).build().double().eval()
    again.load_state_dict(net.state_dict())
    x = torch.randn(3, 1, 6, 6, dtype=torch.float64)
    assert torch.equal(again(x), net(x))


def test_to_look_at_the_targets_before_training_changes_nothing() -> None:
    net = of_targets("cnn", "heteroscedastic").train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x, y = torch.randn(8, 1, 6, 6, dtype=torch.float64), torch.zeros(8, TARGETS, dtype=torch.float64)
    state = torch.get_rng_state()
    net.prepare([Labeled(x, y)])
    assert torch.equal(torch.get_rng_state(), state)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_only_the_recipe_of_targets_clips() -> None:
    assert of_targets("cnn", None).recipe == replace(CNN.recipe, clip="norm:1.0")
    assert CNN(1, 6, 6, classes=3).recipe is CNN.recipe
    assert CNN.recipe.clip is None


@pytest.mark.parametrize("name", NETS)
def test_wrong_combinations_are_refused_with_one_sentence(name: str) -> None:
    cls = find(name)
    with pytest.raises(UsageError, match=r"either classes or targets \(got classes=None, targets=None\)"):
        cls(channels=1, height=6, width=6)
    with pytest.raises(UsageError, match=r"either classes or targets \(got classes=3, targets=1\)"):
        cls(channels=1, height=6, width=6, classes=3, targets=1)
    with pytest.raises(UsageError, match="a head is for real targets"):
        cls(channels=1, height=6, width=6, classes=3, head="gaussian")
    with pytest.raises(UsageError, match="targets must be at least 1"):
        cls(channels=1, height=6, width=6, targets=0)
    with pytest.raises(UsageError, match=r"head must be gaussian.*got 'cosy'"):
        cls(channels=1, height=6, width=6, targets=1, head="cosy")
    x = torch.zeros(4, 1, 6, 6, dtype=torch.float64)
    with pytest.raises(DataError, match=r"the targets must have the shape \(4, 2\), got \(4,\)"):
        of_targets(name, "gaussian").loss(Labeled(x, torch.zeros(4, dtype=torch.float64)))
    with pytest.raises(DataError, match="models other targets than these"):
        of_targets(name, "bernoulli").prepare([Labeled(x, torch.full((4, TARGETS), 0.5, dtype=torch.float64))])


def test_labels_that_are_there_or_not_are_read_off_images() -> None:
    """Light in the left half, in the upper half: two independent labels."""
    torch.manual_seed(0)
    x = torch.rand(300, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    y = torch.stack([x[..., :3].mean((1, 2, 3)), x[:, :, :3].mean((1, 2, 3))], 1)
    y = (y > y.median(0).values).float()
    net = CNN(1, 6, 6, targets=2, head="bernoulli", hidden=(8,))
    fit(net, from_tensors(x, y), quiet=True, epochs=15)
    assert (net.eval().predict(x) == y).double().mean() > 0.95
    assert net.predict(x).unique().tolist() == [0, 1]
