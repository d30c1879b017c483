"""The linear case is the PCA of the unrolled signal, and sequences of a known source are reconstructed."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.autoencoders.recurrent_autoencoder import RecurrentAutoencoder

FRAMES, LATENT = 6, 3


def pca_weights(x: Tensor) -> tuple[Any, PCA]:
    """A linear recurrent autoencoder whose units hold the last frames, in registers, with the directions of PCA."""
    pca = PCA(LATENT).fit(x.numpy())
    values = x.shape[1] // FRAMES
    units = x.shape[1]
    model: Any = RecurrentAutoencoder(x.shape[1], FRAMES, LATENT, units, cell="identity").double()
    directions = torch.from_numpy(pca.components_)  # (latent, T * values)
    mean = torch.from_numpy(pca.mean_)
    shift = torch.diag(torch.ones(units - values), -values).double()  # each register to the next one
    into, out = torch.zeros(units, values).double(), torch.zeros(values, units).double()
    into[:values], out[:, -values:] = torch.eye(values), torch.eye(values)  # in at the first, out of the last one
    newest_first = torch.cat(list(directions.split(values, -1))[::-1], -1)
    frames = list(directions.split(values, -1))
    changes = [frames[0], *(after - before for before, after in pairwise(frames))]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for layers, inputs in ((model.reader, into), (model.writer, torch.cat(changes[::-1], -1).T)):
            layers.weight_hh_l0.copy_(shift)
            layers.weight_ih_l0.copy_(inputs)
        model.to_code.weight.copy_(newest_first)
        model.to_code.bias.copy_(-directions @ mean)
        model.to_frame.weight.copy_(out)
        biases = list(mean.split(values))
        steps = [biases[0], *(after - before for before, after in pairwise(biases))]
        model.writer.bias_l0.copy_(torch.cat(steps[::-1]))
    return model, pca


def test_the_linear_case_can_be_the_pca_of_the_unrolled_signal_and_is_then_at_an_optimum() -> None:
    torch.manual_seed(0)
    x = torch.randn(40, 2 * FRAMES, dtype=torch.float64) @ torch.randn(2 * FRAMES, 2 * FRAMES).double() + 1
    model, pca = pca_weights(x)
    projected = torch.from_numpy(pca.inverse_transform(pca.transform(x.numpy())))
    torch.testing.assert_close(model.encode(x), torch.from_numpy(pca.transform(x.numpy())), rtol=0, atol=1e-10)
    torch.testing.assert_close(model.reconstruct(x.view(40, FRAMES, 2)).flatten(1), projected, rtol=0, atol=1e-10)
    loss = model.loss(Batch(x))["reconstruction"]
    assert math.isclose(loss.item(), (x - projected).square().sum(1).mean().item(), rel_tol=1e-12)
    for gradient in torch.autograd.grad(loss, list(model.parameters())):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-9)


def tones(count: int, seed: int, noise: float) -> Tensor:
    """Two tones of known frequencies with random amplitudes and phases, and noise: a plane for each tone."""
    generator = torch.Generator().manual_seed(seed)
    t = torch.arange(16.0)
    amplitudes = torch.randn(count, 4, generator=generator)
    waves = torch.stack([f(w * t) for w in (0.5, 1.1) for f in (torch.sin, torch.cos)])
    return amplitudes @ waves + noise * torch.randn(count, 16, generator=generator)


@pytest.mark.slow
def test_sequences_of_a_known_source_are_reconstructed() -> None:
    """Four numbers say all of such a sequence but its noise; PCA finds them, and no linear network can do better."""
    x, held_out = tones(1000, 0, noise=0.1), tones(500, 1, noise=0.1)
    torch.manual_seed(0)
    model = RecurrentAutoencoder(16, frames=16, latent=4, units=32, cell="identity")
    dc.fit(model, dc.from_tensors(x), quiet=True, epochs=25, lr=1e-2, batch_size=50, evaluate=False)
    pca = PCA(4).fit(x.numpy())
    best = (held_out - torch.from_numpy(pca.inverse_transform(pca.transform(held_out.numpy())))).square().sum(1).mean()
    error = model.loss(Batch(held_out))["reconstruction"]
    assert 0.95 * best < error < best + 0.01 * held_out.square().sum(1).mean(), (error, best)


def test_the_code_depends_on_the_order_and_the_decoder_on_the_code_alone() -> None:
    torch.manual_seed(0)
    model = RecurrentAutoencoder(12, frames=4, latent=3).double()
    x = torch.randn(5, 4, 3, dtype=torch.float64)
    assert not torch.allclose(model.encode(x), model.encode(x.flip(1)))
    z = torch.randn(2, 5, 3, dtype=torch.float64)
    torch.testing.assert_close(model.decode(z)[1], model.decode(z[1]))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="64 values cannot be cut into 7 frames of the same size"):
        RecurrentAutoencoder(64, frames=7)
    with pytest.raises(UsageError, match="cell must be one of"):
        RecurrentAutoencoder(64, cell="sine")  # type: ignore[arg-type]
