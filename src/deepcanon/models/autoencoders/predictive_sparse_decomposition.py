"""Predictive sparse decomposition (PSD)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softshrink

from deepcanon.core import Batch, Descend, Recipe, Terms, Turn
from deepcanon.core.checks import at_least, flat, positive
from deepcanon.models.autoencoders._autoencoder import Coder


class PredictiveSparseDecomposition(Coder):
    r"""Sparse coding with an encoder that learns to predict the optimal codes.

    .. math:: E(x, z) = \lVert x - B z \rVert^2 + \lambda \lVert z \rVert_1 + \alpha \lVert z - F(x) \rVert^2 \qquad (1)

    .. math:: F(x) = g \odot \tanh(K x + k) \qquad (2)

    Each step first finds the optimal code of every example of the batch, by iterative shrinkage from the prediction,
    and then descends on (1) with the codes held fixed: the columns of the dictionary B, of unit length, learn to
    reconstruct, and the encoder F to predict. Once trained, F replaces the minimization.

    .. math:: z \leftarrow \operatorname{shrink}_{\eta \lambda}\bigl(z - \eta \nabla_z
              (\lVert x - B z \rVert^2 + \alpha \lVert z - F(x) \rVert^2)\bigr), \qquad
              \eta = \frac1{2 (\lVert B \rVert_2^2 + \alpha)} \qquad (3)

    References:
        | Fast Inference in Sparse Coding Algorithms with Applications to Object Recognition (Kavukcuoglu et al., 2008),
          https://arxiv.org/abs/1010.3467
        | A Fast Iterative Shrinkage-Thresholding Algorithm for Linear Inverse Problems (Beck and Teboulle, 2009),
          https://doi.org/10.1137/080716542

    Arguments:
        features: The dimension of the data.
        latent: The number of columns of the dictionary :math:`B`.
        sparsity: The weight :math:`\lambda` of the L1 norm.
        prediction: The weight :math:`\alpha` of the distance to the predicted code.
        shrinkage_steps: The number of shrinkage steps (3) of a minimization, with Nesterov's momentum.
    """

    recipe = Recipe(epochs=50, lr=3e-3)

    def __init__(
        self, features: int, latent: int = 64, sparsity: float = 0.5, prediction: float = 1.0, shrinkage_steps: int = 50
    ) -> None:
        super().__init__()
        at_least(1, features=features, latent=latent, shrinkage_steps=shrinkage_steps)
        positive(sparsity=sparsity, prediction=prediction)
        self.features, self.latent = features, latent
        self.sparsity, self.prediction, self.shrinkage_steps = sparsity, prediction, shrinkage_steps
        self.dictionary = nn.Parameter(normalize(torch.randn(features, latent), dim=0))
        self.predictor = nn.Linear(features, latent)
        self.gain = nn.Parameter(torch.ones(latent))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=6, sparsity=0.05, shrinkage_steps=20), Batch(x)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.parameters(), after=self._normalize)]

    def loss(self, batch: Batch) -> Terms:
        x = flat(batch.x, self.features)
        predicted = self.encode(x)
        z = self.minimize(x, predicted)
        return {
            "reconstruction": self.error(z, x).mean(),
            "sparsity": self.sparsity * z.abs().sum(-1).mean(),
            "prediction": self.prediction * (z - predicted).square().sum(-1).mean(),
        }  # eq. (1)

    def encode(self, x: Tensor) -> Tensor:
        """The predicted code of each example, (B, latent)."""
        code: Tensor = self.gain * self.predictor(flat(x, self.features)).tanh()  # eq. (2)
        return code

    def decode(self, z: Tensor) -> Tensor:
        return z @ self.dictionary.T

    @torch.no_grad()
    def minimize(self, x: Tensor, predicted: Tensor | None = None) -> Tensor:
        """The code of each example that minimizes (1), (B, latent), from the predicted one."""
        x = flat(x, self.features)
        predicted = self.encode(x) if predicted is None else predicted
        norm = torch.linalg.matrix_norm(self.dictionary, 2)
        rate = 0.5 / (norm.square() + self.prediction)
        z = ahead = predicted
        for step in range(self.shrinkage_steps):
            slope = 2 * (ahead @ self.dictionary.T - x) @ self.dictionary + 2 * self.prediction * (ahead - predicted)
            last, z = z, softshrink(ahead - rate * slope, float(rate * self.sparsity))  # eq. (3)
            ahead = z + step / (step + 3) * (z - last)
        return z

    @torch.no_grad()
    def _normalize(self) -> None:
        """Scale the columns of the dictionary to unit length: else small codes and large columns would evade (1)."""
        self.dictionary.copy_(normalize(self.dictionary, dim=0))
