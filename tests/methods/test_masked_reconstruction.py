"""What is hidden is predicted: linear features of a Gaussian reach the conditional mean, the best there is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import deepcanon as dc
from deepcanon.core import Batch, Labeled, UsageError, methods_of
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.masked_reconstruction import MaskedReconstruction
from deepcanon.models.convolutional.cnn import CNN


def test_the_loss_is_the_squared_error_of_what_is_hidden() -> None:
    torch.manual_seed(0)
    model = ToyClassifier(features=5, classes=2).double()
    method = MaskedReconstruction(model, features=5)
    x = torch.randn(7, 5, dtype=torch.float64)
    method.prepare([Batch(x[:3]), Batch(x[3:])])
    torch.testing.assert_close(method.mean, x.mean(0))
    torch.manual_seed(1)
    loss = method.loss(Batch(x))["reconstruction"].item()
    torch.manual_seed(1)
    mask = method.mask(x).numpy()
    assert set(np.unique(mask)) == {0.0, 1.0}
    hidden = np.where(mask == 1, x.mean(0).numpy(), x.numpy())
    features = np.tanh(hidden @ model.first.weight.detach().numpy().T + model.first.bias.detach().numpy())
    rebuilt = features @ method.decoder.weight.detach().numpy().T + method.decoder.bias.detach().numpy()
    errors = [
        np.square(row - guess)[here == 1].mean() for row, guess, here in zip(x.numpy(), rebuilt, mask, strict=True)
    ]
    assert loss == pytest.approx(np.mean(errors), rel=1e-12)


def test_masks_hide_the_share_that_is_asked_for_and_never_nothing() -> None:
    torch.manual_seed(0)
    method = MaskedReconstruction(ToyClassifier(2000, 2), features=2000, hidden_share=0.3)
    assert method.mask(torch.zeros(200, 2000)).mean().item() == pytest.approx(0.3, abs=0.01)
    tiny = MaskedReconstruction(ToyClassifier(2, 2), features=2, hidden_share=0.01)
    assert tiny.mask(torch.zeros(500, 2)).sum(1).min() >= 1


def test_of_images_square_patches_of_all_channels_are_hidden() -> None:
    torch.manual_seed(0)
    method = MaskedReconstruction(ToyClassifier(3 * 7 * 6, 2), features=3 * 7 * 6, patch=3)
    mask = method.mask(torch.zeros(50, 3, 7, 6))
    assert torch.equal(mask[:, 0], mask[:, 2])
    first, cut = mask[:, 0, :3, :3], mask[:, 0, 6:, 3:]  # the last row of patches has one line of pixels left
    for patch in (first, cut):
        assert torch.equal(patch.amin((1, 2)), patch.amax((1, 2)))
    assert 0.3 < mask.mean().item() < 0.7


class Linear(ToyClassifier):
    """Features that are linear, so that the best prediction of a Gaussian is among them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.last(self.first(x))
        return logits


@pytest.mark.slow
def test_a_hidden_feature_of_a_gaussian_is_predicted_by_its_conditional_mean() -> None:
    """Of two features with correlation r one is hidden at a time: at best the squared error is 1 - r squared."""
    torch.manual_seed(0)
    r = 0.8
    x = torch.randn(4000, 2) @ torch.tensor([[1.0, r], [0.0, (1 - r * r) ** 0.5]])
    method = MaskedReconstruction(Linear(2, 2), features=2, hidden_share=1e-6)
    dc.fit(method, dc.data.of(x, (x[:, 0] > 0).long()), steps=600, lr=1e-2, quiet=True, evaluate=False)
    torch.manual_seed(1)
    reached = method.eval().loss(Batch(torch.cat([x] * 5)))["reconstruction"].item()
    assert reached == pytest.approx(1 - r * r, rel=0.06)


def test_a_gallery_shows_what_was_hidden_and_what_is_put_in_its_place() -> None:
    torch.manual_seed(0)
    method = MaskedReconstruction(CNN(channels=1, height=8, width=8, classes=10), features=64)
    x = torch.rand(4, 1, 8, 8)
    shown = method.eval().gallery(x, generator=torch.Generator().manual_seed(0))
    assert list(shown) == ["data", "masked", "reconstructed"]
    kept = method.mask(x, torch.Generator().manual_seed(0)) == 0
    assert torch.equal(shown["masked"][kept], x[kept])
    assert torch.equal(shown["reconstructed"][kept], x[kept])
    assert methods_of(method) == ("encode",)


def test_both_losses_may_be_learned_together() -> None:
    method = MaskedReconstruction(ToyClassifier(2, 2), features=2, supervised=1.0)
    batch = ToyClassifier.example()[1]
    assert isinstance(batch, Labeled)
    assert method.loss(batch).keys() == {"nll", "reconstruction"}
    assert isinstance(method.decoder, nn.Linear)


def test_wrong_arguments_are_refused() -> None:
    for arguments, words in (
        ({"hidden_share": 0.0}, "hidden_share is a probability"),
        ({"patch": 0}, "patch must be at least 1"),
    ):
        with pytest.raises(UsageError, match=words):
            MaskedReconstruction(ToyClassifier(2, 2), features=2, **arguments)
