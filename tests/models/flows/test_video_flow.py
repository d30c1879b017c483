"""The video flow: the joint Gaussian and a Kalman filter where it is linear, one frame as Glow, and moving digits."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.comparison.measures import bits_per_dimension
from deepcanon.core import DataError, UsageError, Videos
from deepcanon.interop.onnx import export_onnx
from deepcanon.models.flows.glow import Glow
from deepcanon.models.flows.video_flow import VideoFlow

SHAPE = (1, 4, 4)


def videos(count: int, frames: int) -> Tensor:
    x = torch.randn(count, frames, *SHAPE, generator=torch.Generator().manual_seed(3))
    return (x.cumsum(-1).cumsum(1) + 1).double()


def flow(*, linear: bool = False, **arguments: Any) -> VideoFlow:
    """One that is far from where it starts; with networks that are constant its flow is linear."""
    torch.manual_seed(0)
    model = VideoFlow(*SHAPE, **{"length": 4, "depth": 2, "hidden": 8} | arguments).double()
    model.prepare([Videos(videos(50, 4), torch.full((50,), 4))])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    for layer in model.modules() if linear else ():
        if isinstance(layer, nn.Conv2d):
            nn.init.zeros_(layer.weight)  # their biases stay, so that couplings scale and shift
    return model


def linear_map(model: VideoFlow) -> tuple[np.ndarray, np.ndarray]:
    """A and b of x = A u + b, by the images of zero and of the unit vectors."""
    basis = torch.eye(model.dimensions, dtype=torch.float64)
    with torch.no_grad():
        b = model.flow.inverse(torch.zeros_like(basis[:1])).flatten(1)
        a = (model.flow.inverse(basis).flatten(1) - b).T
    return a.numpy(), b[0].numpy()


def variances(model: VideoFlow) -> tuple[np.ndarray, np.ndarray]:
    """The variances of the noise and of a step of the walk."""
    noise = torch.zeros_like(model.log_scale) if model.noise_logit is None else model.noise_logit.sigmoid()
    return noise.detach().numpy(), (2 * model.log_scale).exp().detach().numpy()


@pytest.mark.parametrize("noise", [True, False])
def test_where_the_flow_is_linear_all_frames_are_one_gaussian(noise: bool) -> None:
    """Of latents, cov(u_s, u_t) = 1 - tau² + (min(s, t) - 1) sigma², and tau² more where s = t; scipy has the rest."""
    model, frames = flow(linear=True, noise=noise), 4
    a, b = linear_map(model)
    tau, sigma = variances(model)
    earlier = np.minimum.outer(np.arange(frames), np.arange(frames))
    shared = np.kron(np.ones((frames, frames)), np.diag(1 - tau)) + np.kron(earlier, np.diag(sigma))
    latents = shared + np.kron(np.eye(frames), np.diag(tau))
    whole = np.kron(np.eye(frames), a)
    gaussian = stats.multivariate_normal(np.tile(b, frames), whole @ latents @ whole.T)
    x = videos(6, frames)
    with torch.no_grad():
        np.testing.assert_allclose(model.log_prob(x).numpy(), gaussian.logpdf(x.flatten(1).numpy()), rtol=1e-9)


@pytest.mark.parametrize("noise", [True, False])
def test_where_the_flow_is_linear_the_likelihood_is_the_evidence_of_a_kalman_filter(noise: bool) -> None:
    """A filter with full matrices, whose state is the walk and whose observation the pixels; frame by frame."""
    model = flow(linear=True, noise=noise)
    a, b = linear_map(model)
    tau, sigma = variances(model)
    x, lengths = videos(3, 4), torch.tensor([4, 2, 3])
    with torch.no_grad():
        found = model.step_log_probs(x, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        mean, cov = np.zeros(16), np.diag(1 - tau)
        for frame in range(4):
            if frame >= length:
                assert found[row, frame] == 0
                continue
            seen, spread = x[row, frame].flatten().numpy(), a @ (cov + np.diag(tau)) @ a.T
            wanted = stats.multivariate_normal(a @ mean + b, spread).logpdf(seen)
            assert found[row, frame].item() == pytest.approx(wanted, rel=1e-9)
            gain = cov @ a.T @ np.linalg.inv(spread)
            mean = mean + gain @ (seen - a @ mean - b)
            cov = cov - gain @ a @ cov + np.diag(sigma)


def test_one_frame_has_the_likelihood_of_glow() -> None:
    model, x = flow(), videos(5, 1)
    glow = Glow(*SHAPE, depth=2, hidden=8).double()
    glow.load_state_dict({key: value for key, value in model.state_dict().items() if key.startswith("flow.")})
    with torch.no_grad():
        torch.testing.assert_close(model.log_prob(x), glow.log_prob(x[:, 0]), rtol=1e-12, atol=0)


def test_the_density_integrates_to_one() -> None:
    """By importance sampling from a wider Gaussian; two frames of 2x2 pixels, with networks that are not constant."""
    torch.manual_seed(0)
    model = VideoFlow(1, 2, 2, length=2, scales=1, depth=2, hidden=4).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        drawn = model.sample(10_000).flatten(1)
        gaussian = torch.distributions.MultivariateNormal(drawn.mean(0), 2 * drawn.T.cov())
        x = gaussian.sample((40_000,))
        ratio = (model.log_prob(x.reshape(-1, 2, 1, 2, 2)) - gaussian.log_prob(x)).exp()
    error = float(ratio.std()) / math.sqrt(len(ratio))
    assert error < 0.02
    assert float(ratio.mean()) == pytest.approx(1, abs=5 * error)


def test_a_forecast_has_the_moments_of_the_kalman_filter() -> None:
    model = flow(linear=True)
    (a, b), (tau, sigma) = linear_map(model), variances(model)
    past, lengths = videos(2, 4), torch.tensor([4, 2])
    paths = model.forecast(Videos(past, lengths), 2, samples=4000, generator=torch.Generator().manual_seed(0))
    assert paths.shape == (4000, 2, 2, *SHAPE)
    for row, length in enumerate(lengths.tolist()):
        latents = np.linalg.solve(a, (past[row, :length].flatten(1).numpy() - b).T).T
        mean, cov = np.zeros(16), 1 - tau
        for latent in latents:
            gain = cov / (cov + tau)
            mean, cov = mean + gain * (latent - mean), (1 - gain) * cov + sigma
        for step in range(2):
            wanted = a @ np.diag(cov + tau + step * sigma) @ a.T
            drawn = paths[:, row, step].flatten(1).numpy()
            error = np.sqrt(np.diag(wanted) / len(drawn))
            assert np.abs((drawn.mean(0) - a @ mean - b) / error).max() < 5
            assert np.abs(np.diag(np.cov(drawn.T)) / np.diag(wanted) - 1).max() < 5 * math.sqrt(2 / len(drawn))


def test_samples_are_videos_that_come_back_from_their_noise() -> None:
    model = flow()
    drawn = model.sample(3, generator=torch.Generator().manual_seed(0))
    assert drawn.shape == (3, 4, *SHAPE)
    noise = torch.randn(3, 4 * 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(model.encode(drawn), noise)


def test_the_score_is_that_of_the_frames_before_the_end() -> None:
    model, x, lengths = flow(), videos(2, 4), torch.tensor([4, 2])
    score = model.score(x, lengths=lengths)
    assert not score[1, 2:].any()
    torch.testing.assert_close(score[1:, :2], model.score(x[1:, :2]))


def test_metrics_are_means_over_frames_in_bits_too() -> None:
    model, batch = VideoFlow.example()
    with torch.no_grad():
        metrics = model.metrics(batch)
        nats = model.log_prob(batch.x, lengths=batch.lengths).sum() / batch.lengths.sum()
    assert float(metrics["nll"]) == pytest.approx(-float(nats))
    assert float(metrics["bits_per_dim"]) == pytest.approx(bits_per_dimension(float(nats), dimensions=4, levels=4))
    assert set(VideoFlow(1, 2, 2, 3, scales=1).metrics(batch)) == {"nll"}


def test_what_it_cannot_take_is_refused_in_a_sentence() -> None:
    model, x = flow(), videos(2, 3)
    with pytest.raises(DataError, match=r"videos of the shape \(B, T, 1, 4, 4\), got \(2, 3, 16\)"):
        model.log_prob(x.flatten(2))
    with pytest.raises(DataError, match=r"lengths from 1 to 3; got from 0 to 3"):
        model.log_prob(x, lengths=torch.tensor([0, 3]))
    with pytest.raises(UsageError, match=r"draws nothing; leave out samples"):
        model.log_prob(x, samples=3)
    with pytest.raises(UsageError, match=r"not a conditional model"):
        model.forecast(x, 2, context=torch.zeros(2))
    with pytest.raises(UsageError, match=r"divisible by 4 \(got 6x4\); take fewer scales"):
        VideoFlow(1, 6, 4, length=3)
    plain = dc.load_data("moving-digits").train
    with pytest.raises(DataError, match=r"plain gray levels.*NAME:dequantized"):
        VideoFlow(1, 12, 12, length=8).prepare([plain.select(torch.arange(9))])


def test_values_in_the_padding_are_not_refused() -> None:
    model, x = flow(), videos(4, 4)
    gray = torch.zeros_like(x)
    gray[:, :2] = x[:, :2]
    gray[:, 2:] = math.nan
    batch = Videos(gray, torch.full((4,), 2))
    model.prepare([batch])
    whole = replace(batch, x=x[:, :2])
    assert torch.equal(model.loss(batch)["nll"], model.loss(whole)["nll"])
    assert model.evaluated(batch).metrics["nll"].isfinite()


@pytest.mark.slow
def test_a_short_training_beats_a_gaussian_of_all_pixels_on_held_out_videos() -> None:
    """That of a frame, with the full covariance that the training frames have; a tenth of the recipe is enough."""
    data = dc.load_data("moving-digits:dequantized")
    train, test = (data.split(name).frames.flatten(1).double().numpy() for name in ("train", "test"))
    gaussian = stats.multivariate_normal(train.mean(0), np.cov(train.T))
    torch.manual_seed(0)
    model = VideoFlow(1, 12, 12, length=8, levels=17, depth=2, hidden=16)
    result = dc.fit(model, data, steps=60, quiet=True)
    assert result.test["nll"] < -gaussian.logpdf(test).mean() - 5


@pytest.mark.slow
@pytest.mark.parametrize("model", [VideoFlow, Glow])
def test_an_exported_file_takes_any_number_of_examples(model: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, of deepcanon[onnx]")
    built, batch = model.example()
    found = export_onnx(built, batch.select(torch.tensor([1, 2])).inputs, tmp_path / "flow.onnx")
    assert found is not None
    assert found < 1e-4
