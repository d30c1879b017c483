"""Dead zones by hand: codes with given moments, straight lines, and the claim on the digits for every seed."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.studies.latent_space import _pairs, codes, confidence, decoded, latent_space, like_codes, path, quantiles


def test_noise_gets_the_mean_and_the_covariance_of_the_codes() -> None:
    torch.manual_seed(0)
    code = torch.randn(50, 3, dtype=torch.float64) @ torch.randn(3, 3, dtype=torch.float64) + 5
    noise = torch.randn(400, 3, dtype=torch.float64)
    noise -= noise.mean(0)
    noise = noise @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(noise.T))).T  # exactly of unit covariance
    drawn = like_codes(noise, code)
    torch.testing.assert_close(drawn.mean(0), code.mean(0))
    torch.testing.assert_close(torch.cov(drawn.T), torch.cov(code.T))
    assert like_codes(noise[:, :1], code[:, :1]).std().item() == pytest.approx(code[:, 0].std().item())


def test_a_path_is_straight_and_ends_at_both_codes() -> None:
    start, end = torch.zeros(2, 3), torch.tensor([[1.0, 2.0, 3.0], [0.0, -10.0, 5.0]])
    points = path(start, end)
    assert points.shape == (11, 2, 3)
    torch.testing.assert_close(points, torch.arange(11).reshape(-1, 1, 1) / 10 * end)


def test_a_map_has_equal_shares_of_the_prior_between_its_lines() -> None:
    points = quantiles(19).reshape(19, 19, 2)
    across = torch.erf(points[0, :, 0] / 2**0.5) / 2 + 0.5
    torch.testing.assert_close(across, torch.arange(1, 20) / 20)
    torch.testing.assert_close(points[:, 0, 1], points[0, :, 0].flip(0))  # upwards, as on any map
    assert bool((points[..., 0] == points[:1, :, 0]).all())


def test_pairs_are_of_unlike_classes() -> None:
    y = torch.tensor([0, 1, 2, 0, 2, 2])
    assert _pairs(y).tolist() == [[1], [4]]
    with pytest.raises(UsageError, match="one class only"):
        _pairs(torch.zeros(6, dtype=torch.long))


def test_confidence_is_the_largest_probability() -> None:
    class Fixed(nn.Module):
        def predict(self, x: Tensor, *, how: str) -> Tensor:
            assert x.shape[1:] == (1, 1, 3)
            assert how == "mean"
            return x.flatten(1).softmax(1)

    found = confidence(Fixed(), torch.tensor([[0.0, 0.0, 0.0], [50.0, 0.0, 0.0]]), (1, 1, 3))
    torch.testing.assert_close(found, torch.tensor([1 / 3, 1.0], dtype=torch.float64))


@pytest.mark.parametrize("name", ["autoencoder", "vae"])
def test_codes_decoded_are_the_reconstructions(name: str) -> None:
    model: Any
    model, batch = dc.find(name).example()
    torch.testing.assert_close(decoded(model, codes(model, batch.x)), model.reconstruct(batch.x))


@pytest.mark.slow
def test_the_autoencoder_has_more_dead_zones_than_the_vae_with_every_seed() -> None:
    found = latent_space(dc.find("autoencoder"), dc.find("vae"), dc.find("mlp"), seeds=2).numbers["found"]
    plain, varied = found["autoencoder"], found["vae"]
    assert all(a < b for a, b in zip(plain["prior"], varied["prior"], strict=True))
    assert all(a[5] < b[5] for a, b in zip(plain["path"], varied["path"], strict=True))
    assert all(b < a for a, b in zip(plain["dead"], varied["dead"], strict=True))


def test_other_data_than_images_with_classes_are_refused() -> None:
    with pytest.raises(UsageError, match="images with classes; moons"):
        latent_space(dc.find("autoencoder"), dc.find("vae"), dc.find("mlp"), data="moons")
