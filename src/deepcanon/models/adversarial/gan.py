"""Generative adversarial network (GAN)."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch.nn.functional import softplus

from deepcanon.core import Batch, Recipe, Terms
from deepcanon.core.checks import one_of
from deepcanon.models.adversarial._game import NoiseGame, dense_sides

GameName = Literal["non_saturating", "minimax"]


class GAN(NoiseGame[Batch]):
    r"""A generator of samples, trained against a discriminator that classifies data and samples.

    Also known as: adversarial network, vanilla GAN.

    .. math:: \min_G \max_D \; E_x \log D(x) + E_z \log(1 - D(G(z))) \qquad (1)

    The optimal discriminator against a generator of density q is :math:`D = p / (p + q)`, where the value of the game
    is :math:`2 JS(p \,\|\, q) - \log 4`. The ``minimax`` generator minimizes that value; its gradient vanishes where
    the discriminator is sure. The ``non_saturating`` generator minimizes another loss instead.

    .. math:: -E_z \log D(G(z)) \qquad (2)

    Both networks work at unit scale: the generator's last layer and the discriminator's first shift and scale by the
    mean and the standard deviation of the training data.

    References:
        | Generative Adversarial Networks (Goodfellow et al., 2014), https://arxiv.org/abs/1406.2661

    Arguments:
        features: The dimension of the data.
        latent: The dimension of the noise :math:`z`.
        hidden: The widths of the hidden layers of both networks; their activation is leaky ReLU.
        game: The loss of the generator: ``non_saturating`` or ``minimax``.
        critic_steps: The number of the discriminator's steps for each of the generator's.
    """

    recipe = Recipe(optimizer="adam:betas=0.0/0.99", lr=4e-3, schedule="cosine", batch_size=128, epochs=50)

    def __init__(
        self,
        features: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (128, 128),
        game: GameName = "non_saturating",
        critic_steps: int = 1,
    ) -> None:
        one_of(get_args(GameName), game=game)
        super().__init__(features, latent, critic_steps, *dense_sides(features, latent, hidden))
        self.game = game

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) + 1
        return cls(features=2, latent=2, hidden=(8,)), Batch(x)

    def discriminator_loss(self, batch: Batch) -> Terms:
        """The binary cross-entropy of data (``real``) against samples (``fake``): minus the value of the game."""
        fake = self.sample(len(batch))
        return {
            "real": softplus(-self.discriminate(batch.x)).mean(),  # -log D(x), eq. (1)
            "fake": softplus(self.discriminate(fake)).mean(),  # -log(1 - D(G(z))), eq. (1)
        }

    def loss(self, batch: Batch) -> Terms:
        logits = self.discriminate(self._sample(len(batch)))  # log D - log(1 - D)
        if self.game == "minimax":
            return {"generator": -softplus(logits).mean()}  # log(1 - D(G(z))), eq. (1)
        return {"generator": softplus(-logits).mean()}  # eq. (2)
