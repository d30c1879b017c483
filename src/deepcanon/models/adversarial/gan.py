"""Generative adversarial network (GAN)."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Batch, Recipe
from deepcanon.models.adversarial._game import GameName, LogisticGame, dense_sides


class GAN(LogisticGame[Batch]):
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
        networks = dense_sides(features, latent, hidden)
        super().__init__(features, latent, critic_steps, *networks, game)  # eqs. (1) and (2)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) + 1
        return cls(features=2, latent=2, hidden=(8,)), Batch(x)
