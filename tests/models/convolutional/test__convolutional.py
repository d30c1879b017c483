"""What all convolutional classifiers share: smoothed labels, the order of memory, precision, images that fit."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import DataError, Labelled, UsageError
from deepcanon.models.convolutional._convolutional import ImageClassifier
from deepcanon.models.convolutional.cnn import CNN
from deepcanon.models.convolutional.resnet import ResNet

every_net = pytest.mark.parametrize("name", ["cnn", "resnet"])


def small(name: str, smoothing: float) -> ImageClassifier:
    if name == "cnn":
        return CNN(3, 10, 12, 4, smoothing=smoothing)
    return ResNet(3, 10, 12, 4, base=8, smoothing=smoothing)


def batch(rows: int = 6, dtype: torch.dtype = torch.float64) -> Labelled:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, 10, 12, generator=random, dtype=torch.float64).to(dtype)
    return Labelled(x, torch.arange(rows) % 4)


def stirred(name: str, smoothing: float = 0.1) -> ImageClassifier:
    """A net whose every weight matters, and whose running statistics have seen something."""
    torch.manual_seed(0)
    net = small(name, smoothing).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        net(batch(8).x)
    return net


@every_net
def test_the_terms_in_training_sum_to_torchs_smoothed_cross_entropy(name: str) -> None:
    net, data = stirred(name), batch()
    with torch.no_grad():
        terms = net.loss(data)
        wanted = F.cross_entropy(net(data.x), data.y, label_smoothing=0.1)
    assert list(terms) == ["nll", "smoothing"]
    torch.testing.assert_close(terms["nll"] + terms["smoothing"], wanted, rtol=1e-12, atol=1e-12)


@every_net
def test_without_smoothing_and_in_evaluation_the_loss_is_the_cross_entropy(name: str) -> None:
    data = batch()
    for net in (stirred(name, smoothing=0.0), stirred(name).eval()):
        with torch.no_grad():
            terms, wanted = net.loss(data), F.cross_entropy(net(data.x), data.y)
        assert list(terms) == ["nll"]
        torch.testing.assert_close(terms["nll"], wanted, rtol=1e-12, atol=1e-12)


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
    monkeypatch.setattr(ImageClassifier, "_images", lambda self, x: x)
    assert not any(orders(first, data.x))
    first.load_state_dict(stirred(name).state_dict())
    sum(first.loss(data).values(), start=torch.zeros(())).backward()
    torch.testing.assert_close(first.eval()(data.x), last.eval()(data.x), rtol=1e-9, atol=1e-9)
    for (weight, a), b in zip(first.named_parameters(), last.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-10, msg=weight)
        assert a.is_contiguous()


@every_net
def test_an_image_in_a_batch_gets_the_answer_it_gets_alone(name: str) -> None:
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
    data = Labelled(torch.randn(1, 1, 4, 4), torch.tensor([1]))
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
