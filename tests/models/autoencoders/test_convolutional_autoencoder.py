"""The decoder has the transposed convolutions; tied weights get both gradients; it does better than PCA."""

from typing import Any

import pytest
import torch
from sklearn.decomposition import PCA

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.autoencoders.convolutional_autoencoder import ConvolutionalAutoencoder


def without_biases(height: int, width: int, *, tied: bool) -> Any:
    """One without activations or biases, in double precision: then encoding and decoding are matrices."""
    torch.manual_seed(0)
    model = ConvolutionalAutoencoder(2, height, width, 3, (4, 5), activation="identity", tied=tied).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    return model


@pytest.mark.parametrize("sides", [(8, 8), (7, 5), (1, 6), (28, 28)])
def test_decoding_with_tied_weights_is_the_transposed_matrix_of_encoding(sides: tuple[int, int]) -> None:
    model = without_biases(*sides, tied=True)
    features = 2 * sides[0] * sides[1]
    there = model.encode(torch.eye(features, dtype=torch.float64)).detach()
    back = model.decode(torch.eye(3, dtype=torch.float64)).detach()
    torch.testing.assert_close(back, there.T, rtol=0, atol=1e-12)
    assert not torch.allclose(without_biases(*sides, tied=False).decode(torch.eye(3, dtype=torch.float64)), there.T)


def test_the_gradient_of_a_tied_weight_is_the_sum_over_both_uses() -> None:
    tied, free = without_biases(6, 5, tied=True), without_biases(6, 5, tied=False)
    layers = [name for name in dict(tied.named_parameters()) if name.endswith("weight")]
    twin = dict(zip(layers, ["decoder.5.weight", "decoder.3.weight", "decoder.0.weight"], strict=True))
    own, other = dict(tied.named_parameters()), dict(free.named_parameters())
    with torch.no_grad():
        for there, back in twin.items():
            other[there].copy_(own[there])
            other[back].copy_(own[there] if own[there].ndim == 4 else own[there].T)
    batch = Batch(torch.randn(7, 2, 6, 5, dtype=torch.float64))
    for model in (tied, free):
        model.loss(batch)["reconstruction"].backward()
    assert len(own) == len(other) - 3
    for there, back in twin.items():
        first, second = other[there].grad, other[back].grad
        assert min(float(first.norm()), float(second.norm())) > 1e-3
        torch.testing.assert_close(own[there].grad, first + (second if second.ndim == 4 else second.T))


def test_what_has_moved_by_two_pixels_has_its_features_one_position_on() -> None:
    torch.manual_seed(0)
    model = ConvolutionalAutoencoder(1, 12, 12, hidden=(4,)).double()
    x = torch.zeros(1, 1, 12, 12, dtype=torch.float64)
    x[..., 3:7, 2:6] = torch.randn(4, 4, dtype=torch.float64)
    first: Any = model.encoder[:2]
    torch.testing.assert_close(first(x.roll((2, 4), (2, 3))), first(x).roll((1, 2), (2, 3)), rtol=0, atol=1e-12)


def test_rows_of_pixels_are_images_and_others_are_refused() -> None:
    model, batch = ConvolutionalAutoencoder.example()
    assert torch.equal(model.encode(batch.x.flatten(1)), model.encode(batch.x))
    assert model.reconstruct(batch.x).shape == batch.x.shape
    assert model.decode(torch.zeros(3, 4, 2)).shape == (3, 4, 30)
    with pytest.raises(DataError, match="30 features"):
        model.encode(torch.zeros(2, 1, 6, 6))
    with pytest.raises(UsageError, match="hidden must be at least 1"):
        ConvolutionalAutoencoder(1, 8, 8, hidden=(4, 0))


@pytest.mark.slow
def test_on_digits_it_reconstructs_better_than_pca_with_as_many_numbers() -> None:
    digits = dc.load_data("digits")
    torch.manual_seed(0)
    model = ConvolutionalAutoencoder(1, 8, 8)
    result = dc.fit(model, digits, quiet=True, epochs=20)
    assert digits.test is not None
    train, test = (part.x.flatten(1).numpy() for part in (digits.train, digits.test))
    pca = PCA(8).fit(train)
    linear = ((pca.inverse_transform(pca.transform(test)) - test) ** 2).sum(1).mean()
    assert result.test["reconstruction"] < 0.85 * linear
