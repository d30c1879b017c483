"""Kullback-Leibler (KL) divergence: in closed form where there is one, else estimated at a draw."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal, kl_divergence

from deepcanon.distributions.diagonal import Diagonal


def drawn(q: Distribution, shape: torch.Size) -> tuple[Tensor, Tensor | None]:
    """Draws of q by reparameterization, with their log-density where drawing gives it at no cost, else None."""
    both = getattr(q, "rsample_and_log_prob", None)
    if both is None:
        return q.rsample(shape), None
    z, density = both(shape)
    return z, density


def divergence(q: Distribution, p: Distribution, z: Tensor, density: Tensor | None = None) -> Tensor:
    r"""The KL divergence of q from p, or, where it has no closed form, its estimate at draws z of q.

    .. math:: KL(q \,\|\, p) = E_q [\log q(z) - \log p(z)]

    The estimate is unbiased, and may be negative; ``density``, the log-density of q at z, is computed if it is not
    given. Torch lacks the closed form for a full covariance
    :math:`\Sigma = L L^\top` against a diagonal one, which is here:

    .. math:: KL(N(m, L L^\top) \,\|\, N(\mu, \operatorname{diag} s^2)) = \tfrac12 \sum_j \Bigl(
        \frac{\sum_k L_{jk}^2 + (m_j - \mu_j)^2}{s_j^2} - 1 + \log s_j^2 - \log L_{jj}^2 \Bigr)

    >>> q = MultivariateNormal(torch.zeros(2), scale_tril=torch.eye(2))
    >>> float(divergence(q, Independent(Normal(torch.zeros(2), torch.ones(2)), 1), q.sample()))
    0.0
    """
    independent = isinstance(p, Diagonal) or (isinstance(p, Independent) and isinstance(p.base_dist, Normal))
    if isinstance(q, MultivariateNormal) and independent:
        return _full_from_diagonal(q, p)
    try:
        return kl_divergence(q, p)
    except NotImplementedError:
        return (q.log_prob(z) if density is None else density) - p.log_prob(z)


def _full_from_diagonal(q: MultivariateNormal, p: Distribution) -> Tensor:
    square = q.scale_tril.square().sum(-1) + (q.loc - p.mean).square()  # (..., D)
    ratio = q.scale_tril.diagonal(dim1=-2, dim2=-1).log() - p.stddev.log()
    return 0.5 * (square / p.variance - 1).sum(-1) - ratio.sum(-1)
