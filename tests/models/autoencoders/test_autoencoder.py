"""The linear autoencoder is PCA; tied weights get both gradients; a deep one does better than PCA."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA
from torch import Tensor

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.models.autoencoders.autoencoder import Autoencoder


def anisotropic(rows: int = 200, seed: int = 0) -> Tensor:
    """Eight features with well separated variances along directions of their own, not centered."""
    generator = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(8, 8, generator=generator, dtype=torch.float64))
    scales = torch.logspace(0, -1, 8, dtype=torch.float64)
    x: Tensor = torch.randn(rows, 8, generator=generator, dtype=torch.float64) * scales @ basis + 3
    return x


def optimal(x: Tensor, *, tied: bool) -> Autoencoder:
    torch.manual_seed(0)
    model = Autoencoder(features=8, latent=3, hidden=(), tied=tied).double()
    dc.fit(
        model, dc.from_tensors(x), quiet=True, epochs=20, batch_size=len(x), lr=1.0,
        optimizer="lbfgs:max_iter=50,line_search_fn=strong_wolfe,tolerance_grad=1e-12,tolerance_change=1e-15",
    )  # fmt: skip
    return model


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("centered", [True, False])
def test_the_linear_one_spans_the_subspace_of_pca(centered: bool, tied: bool) -> None:
    """On centered data the theorem holds as it stands; on others the biases do the centering."""
    x = anisotropic()
    x = x - x.mean(0) if centered else x
    model, pca = optimal(x, tied=tied), PCA(3).fit(x.numpy())
    zero, *units = model.decode(torch.eye(4, 3, dtype=torch.float64).roll(1, 0)).detach()
    columns = torch.stack(units) - zero
    assert subspace_angles(columns.numpy().T, pca.components_.T).max() < 1e-3
    projected = pca.inverse_transform(pca.transform(x.numpy()))
    np.testing.assert_allclose(model.reconstruct(x).detach().numpy(), projected, rtol=0, atol=1e-3)


def test_the_gradient_of_a_tied_weight_is_the_sum_over_both_uses() -> None:
    torch.manual_seed(0)
    x = dc.from_tensors(anisotropic(16)).train
    tied: Any = Autoencoder(features=8, latent=2, hidden=(5,), activation="tanh", tied=True).double()
    free: Any = Autoencoder(features=8, latent=2, hidden=(5,), activation="tanh").double()
    there, back = tied.encoder, tied.decoder
    with torch.no_grad():
        for i in (0, 2):
            free.encoder[i].weight.copy_(there[i].weight)
            free.encoder[i].bias.copy_(there[i].bias)
            free.decoder[2 - i].weight.copy_(there[i].weight.T)
            free.decoder[i].bias.copy_(back[i].bias)
    for model in (tied, free):
        model.loss(x)["reconstruction"].backward()
    for i in (0, 2):
        encoder, decoder = free.encoder[i].weight.grad, free.decoder[2 - i].weight.grad
        assert min(float(encoder.norm()), float(decoder.norm())) > 1e-3
        torch.testing.assert_close(there[i].weight.grad, encoder + decoder.T)
        torch.testing.assert_close(back[i].bias.grad, free.decoder[i].bias.grad)


def test_tied_weights_are_counted_and_saved_once() -> None:
    free, tied = (Autoencoder(features=8, latent=2, hidden=(5,), tied=tied) for tied in (False, True))
    count = {model: sum(p.numel() for p in model.parameters()) for model in (free, tied)}
    assert count[free] - count[tied] == 8 * 5 + 5 * 2
    assert not [name for name in tied.state_dict() if name.startswith("decoder") and name.endswith("weight")]


def test_the_loss_is_the_squared_error_summed_over_features() -> None:
    model, batch = Autoencoder.example()
    gap = (model.reconstruct(batch.x) - batch.x).detach().numpy()
    assert model.loss(batch)["reconstruction"].item() == pytest.approx((gap**2).sum(1).mean(), rel=1e-5)


def test_images_keep_their_shape() -> None:
    x = torch.rand(3, 1, 4, 2)
    model = Autoencoder(features=8, latent=2)
    assert torch.equal(model.reconstruct(x).flatten(1), model(x))
    assert model.reconstruct(x).shape == x.shape
    with pytest.raises(UsageError, match="latent must be at least 1"):
        Autoencoder(features=8, latent=0)


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_on_digits_a_deep_one_reconstructs_better_than_pca_with_as_many_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    digits = dc.load_data("digits")
    model = Autoencoder(features=64, latent=2, hidden=(64, 32))
    result = dc.fit(model, digits, out=tmp_path, quiet=True, epochs=40, lr=3e-3)
    assert digits.test is not None
    train, test = (part.x.flatten(1).numpy() for part in (digits.train, digits.test))
    pca = PCA(2).fit(train)
    linear = ((pca.inverse_transform(pca.transform(test)) - test) ** 2).sum(1).mean()
    assert result.test["reconstruction"] < 0.85 * linear
    assert {path.stem for path in (tmp_path / "pictures").iterdir()} == {"curves", "reconstructions", "latent_map"}
