"""A model learns from augmented images, predicts on images as they are, and so is robust to rotated ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.augment.motions import Augment
from deepcanon.core import Labeled, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.augmentation import Augmentation
from deepcanon.models.energy.hopfield import Hopfield
from deepcanon.models.feedforward.mlp import MLP

STILL = Augmentation.null


def images(count: int = 4) -> Labeled:
    x = torch.rand(count, 1, 4, 4, dtype=torch.float64, generator=Generator().manual_seed(0))
    return Labeled(x, torch.arange(count) % 2)


def classifier() -> MLP:
    torch.manual_seed(0)
    return MLP(features=16, classes=2, hidden=()).double()


def test_the_expected_loss_is_the_mean_over_what_may_happen() -> None:
    """A flip is the only augmentation: the loss is p times that of flipped images and 1 - p times that of others."""
    model, few = classifier(), images()
    plain, mirrored = (model.loss(Labeled(x, few.y))["nll"].item() for x in (few.x, few.x.flip(3)))
    always: Augmentation[Any] = Augmentation(model, **{**STILL, "flip": 1.0})
    assert always.loss(few)["nll"].item() == pytest.approx(mirrored, rel=1e-12)
    sometimes: Augmentation[Any] = Augmentation(model, **{**STILL, "flip": 0.3})
    times = 20000
    many = Labeled(few.x.repeat(times, 1, 1, 1), few.y.repeat(times))
    torch.manual_seed(0)
    assert abs(mirrored - plain) > 0.05
    with torch.no_grad():
        assert sometimes.loss(many)["nll"].item() == pytest.approx(0.7 * plain + 0.3 * mirrored, abs=0.005)


def test_a_trained_model_predicts_on_images_as_they_are() -> None:
    method: Augmentation[Any]
    method, batch = Augmentation.example()
    assert not torch.equal(method.loss(batch)["nll"], method.loss(batch)["nll"])
    method.eval()
    assert torch.equal(method.loss(batch)["nll"], method.model.loss(batch)["nll"])
    assert torch.equal(method(batch.x), method.model(batch.x))


def test_no_motion_is_the_plain_run_bit_for_bit() -> None:
    ends = []
    for arguments in (None, STILL, {}):
        torch.manual_seed(1)
        model = MLP(features=64, classes=10, hidden=(8,), dropout=0.1)
        method = model if arguments is None else Augmentation(model, **arguments)
        dc.fit(method, dc.load_data("digits"), steps=6, batch_size=32, quiet=True)
        ends.append(copy.deepcopy(model.state_dict()))
    plain, still, moved = ends
    assert all(torch.equal(plain[name], still[name]) for name in plain)
    assert not torch.equal(plain["net.0.weight"], moved["net.0.weight"])


@pytest.mark.slow
def test_who_has_learned_from_turned_digits_reads_turned_digits() -> None:
    data = dc.load_data("digits")
    test = data.split("test")
    turned = Augment(rotate=30)(test.x, torch.arange(len(test)), seed=0, epoch=0)
    accuracy = []
    for rotate in (0.0, 30.0):
        torch.manual_seed(0)
        model: Augmentation[Any] = Augmentation(MLP(features=64, classes=10), **{**STILL, "rotate": rotate})
        dc.fit(model, data, steps=200, batch_size=128, quiet=True)
        accuracy.append((model.predict(turned) == test.y).double().mean().item())  # type: ignore[operator]
    plain, augmented = accuracy
    assert augmented > plain + 0.02


def test_the_gallery_shows_images_and_their_motions_and_what_the_wrapped_model_shows() -> None:
    method: Augmentation[Any]
    method, batch = Augmentation.example()
    shown = method.gallery(batch.x, generator=Generator().manual_seed(0))
    assert list(shown) == ["data", "augmented", "again", "once more"]
    assert torch.equal(shown["data"], batch.x)
    assert not torch.equal(shown["augmented"], shown["again"])
    assert torch.equal(shown["again"], method.gallery(batch.x, generator=Generator().manual_seed(0))["again"])

    class Darkens(ToyClassifier):
        def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
            return {"dark": x / 2}

    both: Augmentation[Any] = Augmentation(Darkens(16, 2))
    assert torch.equal(both.gallery(batch.x)["dark"], batch.x / 2)


def test_what_cannot_be_augmented_is_refused_before_the_training_begins() -> None:
    method: Augmentation[Any] = Augmentation(MLP(features=2, classes=2))
    with pytest.raises(UsageError, match=r"augmentation transforms images, .* an example here is \(2,\) of float32"):
        dc.fit(method, dc.load_data("moons"), steps=1, quiet=True)
    with pytest.raises(UsageError, match="flip goes from 0 to 1"):
        Augmentation(MLP(features=2, classes=2), flip=1.5)
    memory, _ = Hopfield.example()
    with pytest.raises(UsageError, match="learns by backpropagation; hopfield does otherwise"):
        Augmentation(memory).turns()
