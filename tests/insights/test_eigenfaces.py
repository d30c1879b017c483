"""The components are those of scikit-learn, and a linear autoencoder at its optimum has no others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.insights.eigenfaces import eigenfaces
from deepcanon.models.autoencoders.autoencoder import Autoencoder


@cache
def digits() -> Tensor:
    x: Tensor = dc.load_data("digits").train.x[:300]
    return x


def optimal(latent: int) -> Autoencoder:
    """The optimum of the linear autoencoder by PCA, its code mixed by a matrix, which it may be."""
    torch.manual_seed(0)
    x = digits().flatten(1).double()
    pca = PCA(latent).fit(x.numpy())
    model: Any = Autoencoder(64, latent, hidden=()).double()
    mix = torch.randn(latent, latent, dtype=torch.float64)
    directions = torch.from_numpy(pca.components_)
    with torch.no_grad():
        model.encoder[0].weight.copy_(mix @ directions)
        model.encoder[0].bias.copy_(-mix @ directions @ x.mean(0))
        model.decoder[0].weight.copy_(directions.T @ torch.linalg.inv(mix))
        model.decoder[0].bias.copy_(x.mean(0))
    assert isinstance(model, Autoencoder)
    return model


def test_components_and_variances_are_those_of_scikit_learn() -> None:
    x = digits().flatten(1).double().numpy()
    found = eigenfaces(nn.Identity(), Batch(digits()), components=6).numbers
    pca = PCA(6, svd_solver="full").fit(x)
    np.testing.assert_allclose(np.abs(np.array(found["eigenfaces"]) @ pca.components_.T), np.eye(6), atol=1e-6)
    np.testing.assert_allclose(found["variance_shares"], pca.explained_variance_ratio_, rtol=1e-6)
    np.testing.assert_allclose(found["mean"], pca.mean_, atol=1e-6)
    assert found["angles_degrees"] == pytest.approx([0] * 6, abs=1e-4)


def test_the_linear_autoencoder_at_its_optimum_has_the_eigenfaces_of_the_data() -> None:
    finding = eigenfaces(optimal(5), Batch(digits().double()), components=8)
    found = finding.numbers
    assert found["components"] == 5  # the reconstructions vary in no more directions
    assert found["angles_degrees"][0] < 1e-3
    np.testing.assert_allclose(found["eigenfaces_rebuilt"], found["eigenfaces"], atol=1e-6)
    np.testing.assert_allclose(found["variance_shares_rebuilt"], found["variance_shares"], rtol=1e-6)
    assert "zero would be PCA" in finding.says[1]


def test_another_subspace_has_angles_to_it() -> None:
    torch.manual_seed(0)
    model = Autoencoder(64, 5, hidden=()).double()
    model.train()
    found = eigenfaces(model, Batch(digits().double())).numbers
    assert found["angles_degrees"][0] > 45
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_other_models_and_data_are_refused() -> None:
    images = Batch(digits()[:20])
    with pytest.raises(UsageError, match="reconstruct their input"):
        eigenfaces(nn.MaxPool2d(2), images)
    with pytest.raises(DataError, match="is for images"):
        eigenfaces(nn.Identity(), Batch(torch.rand(4, 9)))
    with pytest.raises(DataError, match="are the same"):
        eigenfaces(nn.Identity(), Batch(torch.ones(4, 1, 3, 3)))
    with pytest.raises(UsageError, match="components must be at least 1"):
        eigenfaces(nn.Identity(), images, components=0)
