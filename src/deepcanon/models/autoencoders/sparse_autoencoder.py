"""Sparse autoencoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, get_args

import torch
from torch import Tensor
from torch.nn.functional import softplus

from deepcanon.core import Batch, Descend, Recipe, Terms, Turn, UsageError
from deepcanon.core.checks import one_of, positive
from deepcanon.models.autoencoders._autoencoder import DenseCoder
from deepcanon.nn.activations import Activation

Penalty = Literal["l1", "kl"]


class SparseAutoencoder(DenseCoder):
    r"""An autoencoder whose code is large and mostly zero: few units describe each example.

    .. math:: E = \frac1N \sum_n \lVert x_n - d(z_n) \rVert^2 + \lambda \, \Omega(z), \qquad z_n = e(x_n) \qquad (1)

    The L1 penalty is that of a Laplace prior of the code, whose negative logarithm it is but for a constant. The units
    are then rectified, so that most of them are exactly zero. The weights that a unit has in the decoder are kept from
    growing beyond unit length, lest small codes and large weights evade the penalty.

    .. math:: \Omega_1 = \frac1N \sum_n \sum_j |z_{nj}| \qquad (2)

    The KL penalty compares the mean activity of each sigmoid unit over a batch, :math:`\hat\rho_j`, with a small target
    :math:`\rho`. It is a statistic of the whole batch, so that batches should be large.

    .. math:: \Omega_{KL} = \sum_j \rho \log \frac{\rho}{\hat\rho_j} + (1 - \rho) \log \frac{1 - \rho}{1 - \hat\rho_j},
              \qquad \hat\rho_j = \frac1N \sum_n z_{nj} \qquad (3)

    References:
        | Emergence of simple-cell receptive field properties by learning a sparse code for natural images (Olshausen
          and Field, 1996), https://doi.org/10.1038/381607a0
        | Sparse deep belief net model for visual area V2 (Lee et al., 2007),
          https://papers.nips.cc/paper/3313-sparse-deep-belief-net-model-for-visual-area-v2
        | Sparse autoencoder (Ng, 2011), https://web.stanford.edu/class/cs294a/sparseAutoencoder.pdf

    Arguments:
        features: The dimension of the data.
        latent: The number of units of the code.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse.
        penalty: What is penalized: ``l1``, the absolute values, or ``kl``, the distance of mean activities from rho.
        strength: The weight :math:`\lambda` of the penalty.
        rho: The target :math:`\rho` of the mean activities with the KL penalty.
        activation: The activation of the hidden layers by name.
        convolutions: The channels of convolutions before the encoder's hidden layers, each of which halves height and
            width of an image; the decoder has them transposed, in reverse. Without them all layers are fully connected.
        channels: The channels of an image, where there are convolutions: 1 if it is gray, 3 if it has colors.
        height: The height of such an image in pixels.
        width: Its width in pixels.
    """

    recipe = Recipe(epochs=50, batch_size=256, lr=3e-3)

    def __init__(
        self,
        features: int,
        latent: int = 64,
        hidden: tuple[int, ...] = (),
        penalty: Penalty = "l1",
        strength: float = 0.1,
        rho: float = 0.05,
        activation: Activation = "relu",
        convolutions: tuple[int, ...] = (),
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
    ) -> None:
        one_of(get_args(Penalty), penalty=penalty)
        positive(strength=strength)
        if not 0 < rho < 1:
            raise UsageError(f"rho is a mean activity between 0 and 1 (got {rho})")
        image = channels, height, width
        super().__init__(features, latent, hidden, activation, convolutions=convolutions, image=image)
        self.penalty, self.strength, self.rho = penalty, strength, rho

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=8, strength=0.01), Batch(x)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.parameters(), after=self._shorten if self.penalty == "l1" else None)]

    def encode(self, x: Tensor) -> Tensor:
        inputs = super().encode(x)
        return inputs.relu() if self.penalty == "l1" else inputs.sigmoid()

    def loss(self, batch: Batch) -> Terms:
        inputs = super().encode(batch.x)
        z = inputs.relu() if self.penalty == "l1" else inputs.sigmoid()
        penalty = z.sum(-1).mean() if self.penalty == "l1" else self._kl_of_activities(inputs)  # eq. (2)
        return {"reconstruction": self.error(z, batch.x).mean(), "sparsity": self.strength * penalty}  # eq. (1)

    def metrics(self, batch: Batch) -> Terms:
        """The share of units that are active: above a tenth of the largest of their example."""
        z = self.encode(batch.x)
        return {"active": (z > 0.1 * z.amax(-1, keepdim=True)).to(z.dtype).mean()}

    def _kl_of_activities(self, inputs: Tensor) -> Tensor:
        """The divergence of the mean activities, from the inputs of the units, so that none is rounded to 0 or 1."""
        log_on, log_off = -softplus(-inputs), -softplus(inputs)  # the logarithms of z and 1 - z
        on, off = (rows.logsumexp(0) - torch.tensor(float(len(rows))).log() for rows in (log_on, log_off))
        rho = torch.tensor(self.rho, dtype=inputs.dtype, device=inputs.device)
        return (rho * (rho.log() - on) + (1 - rho) * ((1 - rho).log() - off)).sum()  # eq. (3)

    @torch.no_grad()
    def _shorten(self) -> None:
        """Scale the weights of each unit of the code in the decoder to unit length, if they are longer."""
        weight = self.decoder[0].get_parameter("weight")
        weight.div_(weight.norm(dim=0).clamp_min(1))
