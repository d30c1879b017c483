"""Spectral normalization: a weight divided by its largest singular value, found by power iteration."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.parametrize import ParametrizationList, register_parametrization

FIRST_ITERATIONS = 15
"""As many power iterations as torch begins with."""


class SpectralNorm(nn.Module):
    r"""The parametrization of a weight W by spectral normalization, seen as a matrix with a row for each output.

    .. math:: \bar W = W / \sigma, \qquad \sigma = u^T W v, \qquad
              v \leftarrow W^T u / \lVert W^T u \rVert, \quad u \leftarrow W v / \lVert W v \rVert

    Unlike torch's own, a forward pass changes nothing: ``iterate`` is called once after each change of the weight, so
    that in a game only the discriminator's turn moves the discriminator.

    References:
        | Spectral Normalization for Generative Adversarial Networks (Miyato et al., 2018),
          https://arxiv.org/abs/1802.05957
    """

    u: Tensor
    v: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        rows = weight.detach().flatten(1)
        self.register_buffer("u", normalize(torch.randn_like(rows[:, 0]), dim=0))
        self.register_buffer("v", normalize(torch.randn_like(rows[0]), dim=0))
        for _ in range(FIRST_ITERATIONS):
            self.iterate(weight)

    @torch.no_grad()
    def iterate(self, weight: Tensor) -> None:
        """One power iteration towards the largest singular value of the weight."""
        rows = weight.flatten(1)
        self.v.copy_(normalize(rows.T @ self.u, dim=0))
        self.u.copy_(normalize(rows @ self.v, dim=0))

    def forward(self, weight: Tensor) -> Tensor:
        return weight / (self.u @ weight.flatten(1) @ self.v)


def spectral_norm(layer: nn.Module) -> nn.Module:
    """The layer with its weight normalized by its largest singular value.

    >>> layer = spectral_norm(nn.Linear(3, 3))
    >>> bool((torch.linalg.matrix_norm(layer.weight, 2) - 1).abs() < 0.1)
    True
    """
    register_parametrization(layer, "weight", SpectralNorm(layer.weight))  # type: ignore[arg-type]
    return layer


def iterate_spectral_norms(module: nn.Module) -> None:
    """One power iteration of all weights inside that are spectrally normalized."""
    for part in module.modules():
        if isinstance(part, ParametrizationList) and isinstance(part[0], SpectralNorm):
            part[0].iterate(part.original)
