"""Fisher divergence between two densities, from their scores."""

from __future__ import annotations

from torch import Tensor


def fisher_divergence(p: Tensor, q: Tensor) -> Tensor:
    r"""The Fisher divergence from the scores of p and q at samples of p, one per row.

    .. math:: F(p \,\|\, q) = E_{x \sim p} \lVert \nabla \log p(x) - \nabla \log q(x) \rVert^2 \qquad (1)

    It needs no normalizing constants, and it is the rate at which the KL divergence falls when Gaussian noise of
    variance t is added to both densities:

    .. math:: \frac{d}{dt} KL(p_t \,\|\, q_t) = -\tfrac12 F(p_t \,\|\, q_t) \qquad (2)

    References:
        | Interpretation and Generalization of Score Matching (Lyu, 2009), https://arxiv.org/abs/1205.2629

    >>> import torch
    >>> fisher_divergence(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 5.0]]))
    tensor(9.)
    """
    return (p - q).flatten(1).square().sum(-1).mean()  # eq. (1)
