"""Latents of a variational model: how much of the data each tells, and how far all of them are from the prior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from deepcanon.core import AnyBatch, Model, given_batch

ACTIVE = 0.01
"""The variance of a latent's posterior means over the data above which it is active (Burda et al., 2016)."""
FEW = 1e-12


@torch.no_grad()
def latents_used(model: Any, batch: AnyBatch) -> dict[str, float]:
    r"""What the posteriors of a batch say: active latents, the information in the best of them, the hole in the prior.

    The information of latent j is that of a Gaussian channel, :math:`\tfrac12 \log(1 + \mathrm{Var}_x \mu_j / E_x
    \sigma_j^2)` nats. The hole is the divergence of the aggregate posterior, as a Gaussian, from the prior, the largest
    over the latents.

    References:
        | Importance Weighted Autoencoders (Burda et al., 2016), https://arxiv.org/abs/1509.00519
        | ELBO surgery (Hoffman and Johnson, 2016), http://approximateinference.org/accepted/HoffmanJohnson2016.pdf
    """
    posterior = posterior_of(model, batch)
    assert posterior is not None
    mean, noise = posterior.mean.flatten(1).double(), _variance(posterior).flatten(1).double().mean(0)
    signal = mean.var(0)
    found = {
        "latents": float(mean.shape[1]),
        "active": float((signal > ACTIVE).sum()),
        "information": float((0.5 * torch.log1p(signal / (noise + FEW))).max()),
    }
    prior = _standard(given_batch(model, batch))
    if prior is not None and prior[0].numel() in (1, len(noise)):
        middle, spread = (each.double() for each in prior)
        ratio = (signal + noise) / spread + FEW
        shift = (mean.mean(0) - middle).square() / spread
        found["hole"] = float((0.5 * (ratio + shift - 1 - ratio.log())).max())
    return found


@torch.no_grad()
def posterior_of(model: Any, batch: AnyBatch) -> Distribution | None:
    """The posterior of the latents of each example: what ``encode`` gives, or a plain module's outputs say.

    A plain module is a variational autoencoder if its outputs are a reconstruction, means and log-variances.
    """
    if isinstance(model, Model):
        if not all(callable(getattr(model, name, None)) for name in ("encode", "decode", "log_prob")):
            return None
        posterior = given_batch(model, batch).encode(batch.x)
        return posterior if isinstance(posterior, Distribution) and hasattr(posterior, "mean") else None
    outputs = model(*batch.inputs)
    if not (
        isinstance(outputs, tuple | list) and len(outputs) >= 3 and all(isinstance(o, Tensor) for o in outputs[:3])
    ):
        return None
    again, mean, log_variance = outputs[:3]
    if (
        again.numel() != batch.x.numel()
        or mean.shape != log_variance.shape
        or mean.ndim != 2
        or len(mean) != len(batch)
    ):
        return None
    return Independent(Normal(mean, (0.5 * log_variance).exp(), validate_args=False), 1, validate_args=False)


@torch.no_grad()
def bound_of(model: Any, batch: AnyBatch) -> float:
    """The evidence lower bound in nats per example, by the distributions alone: whatever the loss weighs how."""
    model = given_batch(model, batch)
    posterior = model.encode(batch.x)
    z = posterior.sample()
    prior = model.prior() if hasattr(model, "prior") else Independent(Normal(torch.zeros(z.shape[1]), 1.0), 1)
    return float((model.decode(z).log_prob(batch.x.flatten(1)) + prior.log_prob(z) - posterior.log_prob(z)).mean())


@torch.no_grad()
def deaf(model: Any, batch: AnyBatch) -> bool:
    """Whether the decoder gives the same for any latents."""
    model = given_batch(model, batch)
    z = torch.randn_like(model.encode(batch.x).mean)
    return bool(torch.equal(model.decode(z).mean, model.decode(3 * z.roll(1, 0)).mean))


def _variance(posterior: Distribution) -> Tensor:
    if isinstance(posterior, MultivariateNormal):  # given the other latents, which is what a latent adds
        return 1 / posterior.precision_matrix.diagonal(dim1=-2, dim2=-1)
    return posterior.variance


def _standard(model: Any) -> tuple[Tensor, Tensor] | None:
    """Mean and variance of the prior of all latents, where they depend on no example."""
    prior = getattr(model, "prior", None)
    if prior is None:
        return torch.tensor(0.0), torch.tensor(1.0)
    found = prior()
    try:
        return (found.mean, found.variance) if not found.batch_shape else None
    except NotImplementedError:
        return None


@torch.no_grad()
def divergence_by_data(criterion: Callable[..., Tensor], model: nn.Module, batch: AnyBatch) -> float | None:
    r"""How heavy the divergence weighs in a plain module's loss by what the data have to gain; None if not known.

    Where the loss is :math:`c/2 \lVert x - \hat x \rVert^2 + w \, KL`, a latent of a linear model is used just if the
    largest principal variance of the data exceeds :math:`w / c`; this is their ratio. Both weights are read off the
    loss itself. A loss whose reconstruction is not a square has none.

    References:
        | Don't Blame the ELBO! A Linear VAE Perspective on Posterior Collapse (Lucas et al., 2019),
          https://arxiv.org/abs/1911.02469
    """
    again, mean, *_ = model(*batch.inputs)
    x = batch.x.reshape(again.shape)
    zeros = torch.zeros_like(mean)

    def loss(shift: float, latent: float) -> float:
        return float(criterion((x + shift, zeros + latent, zeros), batch.x if batch.labels is None else batch.labels))

    best = loss(0.0, 0.0)
    size = 0.1 * float(x.std())
    up, down = loss(size, 0.0) - best, loss(-size, 0.0) - best
    if not (up > 0 and abs(up - down) < 0.05 * up):
        return None
    curvature = 2 * up / (size**2 * x[0].numel())
    weight = (loss(0.0, 1.0) - best) / (0.5 * mean.shape[1])
    largest = float(torch.linalg.matrix_norm((x - x.mean(0)).flatten(1).double(), 2) ** 2 / (len(x) - 1))
    ratio: float = weight / curvature / max(largest, 1e-30)
    return ratio
