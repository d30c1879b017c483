"""Latents of a variational model: how much of the data each tells, and how far all of them are from the prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from deepcanon.core import AnyBatch, Model, given_batch

ACTIVE = 0.01
"""The variance of a latent's posterior means over the data above which it is active (Burda et al., 2016)."""
FEW = 1e-12
STEP = 1e-2
"""How far a reconstruction is moved to measure the curvature of its loss."""
FLAT = 1e-3
"""Values whose loss curves less, by the one that curves most, hardly count: pixels that are always black."""


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
    found = _read(model(*batch.inputs), batch)
    if found is None:
        return None
    _, mean, log_variance = found
    return Independent(Normal(mean, (0.5 * log_variance).exp(), validate_args=False), 1, validate_args=False)


def _read(outputs: Any, batch: AnyBatch) -> tuple[Tensor, Tensor, Tensor] | None:
    """Reconstruction, means and log-variances of a plain module, in this order or with the reconstruction last."""
    parts = list(outputs.values()) if isinstance(outputs, Mapping) else outputs
    if not isinstance(parts, tuple | list) or len(parts) < 3 or not all(isinstance(o, Tensor) for o in parts[:3]):
        return None
    for again, mean, log_variance in (parts[:3], (parts[2], *parts[:2])):
        latent = mean.shape == log_variance.shape and mean.ndim == 2 and len(mean) == len(batch)
        if again.numel() == batch.x.numel() and latent:
            return again, mean, log_variance
    return None


def _written(outputs: Any, batch: AnyBatch, parts: tuple[Tensor, Tensor, Tensor]) -> Any:
    """Outputs of the same form with other values in the places of :func:`_read`."""
    found = _read(outputs, batch)
    assert found is not None
    new = {id(old): part for old, part in zip(found, parts, strict=True)}
    if isinstance(outputs, Mapping):
        return {name: new.get(id(old), old) for name, old in outputs.items()}
    values = [new.get(id(old), old) for old in outputs]
    return type(outputs)(*values) if hasattr(outputs, "_fields") else type(outputs)(values)


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


@torch.no_grad()
def deaf_to_draws(model: nn.Module, batch: AnyBatch) -> bool:
    """Whether a plain module gives the same reconstruction for other draws of its latents, in training mode."""
    model.train()
    found = [_read(model(*batch.inputs), batch) for _ in range(2)]
    return all(each is not None for each in found) and torch.equal(found[0][0], found[1][0])  # type: ignore[index]


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


def divergence_by_data(judge: Callable[[Any], Tensor], model: nn.Module, batch: AnyBatch) -> float | None:
    r"""How heavy the divergence weighs in a plain module's loss by what the data have to gain; None if not known.

    At the best constant reconstruction let :math:`g_n` be the gradient of the loss of example n by its reconstruction
    and :math:`H` the curvature, which is diagonal. A first latent with linear decoder gains just if the largest
    eigenvalue of the mean of :math:`H^{-1/2} g_n g_n^T H^{-1/2}` exceeds the weight of the divergence; this is the
    weight by the eigenvalue. For squared errors the eigenvalue is a multiple of the largest principal variance. All of
    it is read off the loss itself; one that does not curve, as that of absolute errors, has none.

    References:
        | Don't Blame the ELBO! A Linear VAE Perspective on Posterior Collapse (Lucas et al., 2019),
          https://arxiv.org/abs/1911.02469
    """
    with torch.no_grad():
        outputs = model(*batch.inputs)
    found = _read(outputs, batch)
    if found is None:
        return None
    again, zeros = found[0], torch.zeros_like(found[1])

    def loss(constant: Tensor, latent: float = 0.0) -> tuple[Tensor, Tensor]:
        every = constant.expand_as(again).contiguous()
        return judge(_written(outputs, batch, (every, zeros + latent, zeros))), every

    constant = _best_constant(lambda values: loss(values)[0], again)
    value, every = loss(constant)
    (gradients,) = torch.autograd.grad(value, every)
    nearby, shifted = loss(constant + STEP)
    (gradients_nearby,) = torch.autograd.grad(nearby, shifted)
    curvature = ((gradients_nearby - gradients).sum(0) / STEP).flatten().double()
    curved = curvature > FLAT * curvature.max()
    if not float(curvature.max()) > 0:
        return None
    pulls = gradients.flatten(1).double()[:, curved] / curvature[curved].sqrt()
    spread = float(torch.linalg.matrix_norm(pulls - pulls.mean(0), 2)) ** 2
    gain = spread * len(pulls) ** 2 / max(1, len(pulls) - 1)
    heavier = float(loss(constant, 1.0)[0].detach()) - float(value.detach())
    weight = heavier / (0.5 * zeros.shape[1])
    return weight / gain if gain > FEW else None


def _best_constant(loss: Callable[[Tensor], Tensor], again: Tensor) -> Tensor:
    """The reconstruction, the same for all examples, of the lowest loss."""
    constant = again.mean(0).detach().clone().requires_grad_()
    optimizer = torch.optim.LBFGS([constant], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(constant)
        value.backward()
        return value

    optimizer.step(closure)
    return constant
