"""Spectral graph convolution: learned filters of a graph's frequencies, by eigenvectors or by Chebyshev polynomials."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepcanon.core import DataError, Graph, Sparse
from deepcanon.core.chebyshev import chebyshev, chebyshev_sum
from deepcanon.core.checks import at_least


class SpectralConv(nn.Module):
    r"""Spectral convolution layer: every pair of features has a filter of the graph's frequencies, a polynomial.

    .. math:: Y = \sum_{k=0}^{K} T_k(L - I)\, X W_k^\top + b
                = Q \sum_{k=0}^{K} T_k(\Lambda - I)\, Q^\top X W_k^\top + b \qquad (1)

    :math:`L = Q \Lambda Q^\top` is the symmetric Laplacian, whose eigenvalues, the frequencies, go from 0 to 2, and
    :math:`T_k` are the Chebyshev polynomials. The first form needs no eigenvectors, only products with L, and is local:
    a node is reached from K edges away at most (Defferrard et al., 2016), https://arxiv.org/abs/1606.09375. The second
    is the definition by the graph Fourier transform (Bruna et al., 2014), https://arxiv.org/abs/1312.6203; it is taken
    where ``frequencies`` says how many of the lowest ones pass.

    >>> layer = SpectralConv(3, 2, order=4)
    >>> layer(torch.ones(4, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([4, 2])
    """

    def __init__(self, in_features: int, out_features: int, *, order: int = 2, frequencies: int | None = None) -> None:
        super().__init__()
        at_least(1, in_features=in_features, out_features=out_features)
        at_least(0, order=order)
        if frequencies is not None:
            at_least(1, frequencies=frequencies)
        self.in_features, self.frequencies = in_features, frequencies
        self.weight = nn.Parameter(torch.empty(order + 1, out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        for matrix in self.weight:
            nn.init.xavier_uniform_(matrix)

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The new features of all nodes, (nodes, out_features)."""
        nodes, features = x.shape
        if features != self.in_features:
            raise DataError(f"the layer takes {self.in_features} features per node, got {features}")
        graph = Graph.of(graph, nodes)
        mapped = (x @ self.weight.flatten(0, 1).T).unflatten(1, self.weight.shape[:2]).transpose(0, 1)
        kind = torch.promote_types(mapped.dtype, torch.float32)  # sums over neighbors keep their digits
        if self.frequencies is None:
            return chebyshev_sum(graph.operator("symmetric_laplacian", kind), mapped) + self.bias  # eq. (1)
        spectrum = graph.spectrum(min(self.frequencies, nodes), "symmetric_laplacian").to(kind)
        responses = chebyshev(spectrum.values, len(mapped) - 1)  # (order + 1, k)
        passed = (responses.unsqueeze(2) * (spectrum.vectors.T @ mapped.to(kind))).sum(0)
        return spectrum.inverse(passed) + self.bias  # eq. (1)
