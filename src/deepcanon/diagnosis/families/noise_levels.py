"""Noise levels of a diffusion model: what is left of the data at the end, and how it denoises at each timestep."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from deepcanon.core import AnyBatch, given_batch

LEVELS = 8
"""At how many timesteps, spread over all, denoising is measured."""


def adds_noise(model: Any) -> bool:
    """Whether it gives the distributions of its forward and reverse process by timesteps."""
    methods = all(callable(getattr(model, name, None)) for name in ("noised", "posterior", "reverse", "prior"))
    return methods and isinstance(getattr(model, "timesteps", None), int)


@torch.no_grad()
def noise_left(model: Any, batch: AnyBatch) -> dict[str, float]:
    """The divergence of the last timestep from the prior, in nats for each value, and how often the signal grows."""
    model = given_batch(model, batch)
    x0 = batch.x.flatten(1)
    end, start = model.noised(x0, torch.full((len(x0),), model.timesteps)), model.prior()
    drawn = end.sample(torch.Size([16]))
    kl = float((end.log_prob(drawn) - start.log_prob(drawn)).mean()) / x0.shape[1]
    steps = torch.arange(1, model.timesteps + 1)
    apart = [_mean(model.noised(row.expand(model.timesteps, -1), steps)) for row in x0[:2]]
    signal = (apart[0] - apart[-1]).norm(dim=1)  # of two examples, which is free of what both are shifted by
    return {"left": kl, "grows": float((signal[1:] > signal[:-1] * (1 + 1e-6)).sum())}


@torch.no_grad()
def denoising(model: Any, batch: AnyBatch) -> dict[str, float]:
    """The error of the reverse process at timesteps, by that of one that always predicts the mean of the data.

    ``best`` and ``worst`` are over timesteps; a network that has learned nothing has 1 at the noisiest of them.
    """
    model = given_batch(model, batch)
    x0 = batch.x.flatten(1)
    middle = x0.mean(0).expand_as(x0)
    shares = []
    for t in torch.linspace(2, model.timesteps, LEVELS).long().tolist():
        steps = torch.full((len(x0),), t)
        noisy = model.noised(x0, steps).sample()
        wanted = _mean(model.posterior(noisy, x0, steps))
        plain = (_mean(model.posterior(noisy, middle, steps)) - wanted).square().mean()
        error = (_mean(model.reverse(noisy, steps)) - wanted).square().mean()
        shares.append(float(error / plain.clamp_min(1e-30)))
    return {"best": min(shares), "worst": max(shares)}


def _mean(distribution: Distribution) -> Tensor:
    return distribution.mean.flatten(1)
