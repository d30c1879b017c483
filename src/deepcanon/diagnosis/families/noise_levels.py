"""Noise levels of a diffusion model: what is left of the data at the end, and how it denoises at each timestep."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from deepcanon.core import AnyBatch, given_batch

LEVELS = 8
"""At how many timesteps, spread over all, denoising is measured."""


def has_timesteps(model: Any) -> bool:
    """Whether it gives the distributions of its forward and reverse process by timesteps."""
    methods = all(callable(getattr(model, name, None)) for name in ("noised", "posterior", "reverse", "prior"))
    return methods and isinstance(getattr(model, "timesteps", None), int)


@torch.no_grad()
def noise_left(model: Any, batch: AnyBatch) -> dict[str, float] | None:
    """What is left of the data where sampling starts, in nats for each value; None where no noise is added.

    With signal a and noise s for data of unit variance it is 1/2 log(1 + a^2 / s^2). ``grows`` counts the timesteps at
    which the signal grows.
    """
    if has_timesteps(model):
        return _by_timesteps(given_batch(model, batch), batch.x.flatten(1))
    process, noises = getattr(model, "sde", None), getattr(model, "noises", None)
    if callable(getattr(process, "signal", None)) and callable(getattr(process, "noise", None)):
        assert process is not None
        end = torch.ones(())
        return {"left": _information(process.signal(end) / process.noise(end)), "grows": 0.0}
    if isinstance(noises, Tensor) and noises.ndim == 1 and callable(getattr(model, "score", None)):
        return {"left": _information(1 / noises.max()), "grows": float((noises[1:] > noises[:-1]).sum())}
    return None


def _by_timesteps(model: Any, x0: Tensor) -> dict[str, float]:
    steps = torch.arange(1, model.timesteps + 1)
    one, other = (model.noised(row.expand(model.timesteps, -1), steps) for row in x0[:2])
    signal = (_mean(one) - _mean(other)).norm(dim=1)  # of two examples, which is free of what both are shifted by
    apart = (signal / (x0[0] - x0[1]).norm().clamp_min(1e-12))[-1] * x0.std(0).mean()
    left = _information(apart / one.stddev.flatten(1)[-1].mean())
    return {"left": left, "grows": float((signal[1:] > signal[:-1] * (1 + 1e-5)).sum())}


def _information(ratio: Tensor) -> float:
    return float(0.5 * torch.log1p(ratio.double().square()))


@torch.no_grad()
def denoising(model: Any, batch: AnyBatch) -> dict[str, float]:
    """The error of the reverse process at timesteps, by that of one that always predicts the mean of the data.

    The variance of the step itself is added to the latter: below it no error does harm. ``best`` and ``worst`` are over
    timesteps; a network that has learned nothing has at most 1 at the noisiest of them.
    """
    model = given_batch(model, batch)
    x0 = batch.x.flatten(1)
    middle = x0.mean(0).expand_as(x0)
    shares = []
    for t in torch.linspace(2, model.timesteps, LEVELS).long().tolist():
        steps = torch.full((len(x0),), t)
        noisy = model.noised(x0, steps).sample()
        true = model.posterior(noisy, x0, steps)
        plain = (_mean(model.posterior(noisy, middle, steps)) - _mean(true)).square().mean()
        error = (_mean(model.reverse(noisy, steps)) - _mean(true)).square().mean()
        shares.append(float(error / (plain + true.stddev.square().mean()).clamp_min(1e-30)))
    return {"best": min(shares), "worst": max(shares)}


def _mean(distribution: Distribution) -> Tensor:
    return distribution.mean.flatten(1)
