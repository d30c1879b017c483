"""Normalized temperature-scaled cross-entropy (NT-Xent) of two views of each example."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize


def nt_xent(one: Tensor, other: Tensor, temperature: float = 0.5) -> Tensor:
    r"""The contrastive loss of N examples, of each of which there are two embeddings, (N, size) twice.

    With :math:`s_{ij}` the cosine of the angle between two of the 2N embeddings and :math:`j(i)` the other view of i,

    .. math:: \frac1{2N} \sum_i -\log \frac{e^{s_{i j(i)} / \tau}}{\sum_{k \ne i} e^{s_{ik} / \tau}}

    Where all embeddings are equal, it is :math:`\log(2N - 1)`.

    References:
        | A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., 2020),
          https://arxiv.org/abs/2002.05709

    >>> nt_xent(torch.ones(3, 2), torch.ones(3, 2)).exp()
    tensor(5.)
    """
    views = normalize(torch.cat([one, other]), dim=-1)
    similarity = views @ views.T / temperature
    similarity.fill_diagonal_(-torch.inf)  # no view is compared with itself
    places = torch.arange(len(views), device=views.device)
    return cross_entropy(similarity, places.roll(len(one)))
