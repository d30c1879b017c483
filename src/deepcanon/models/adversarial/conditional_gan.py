"""Conditional generative adversarial network (conditional GAN)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import ClassConditional, Labeled, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.adversarial._game import GameName, LogisticGame, WithClass, dense_sides

SHOWN = 10
"""How many classes the gallery shows."""


class ConditionalGAN(ClassConditional, LogisticGame[Labeled]):
    r"""A generator of samples of a class, trained against a discriminator that is given the class as well.

    Also known as: cGAN.

    .. math:: \min_G \max_D \; E_{x, y} \log D(x, y) + E_{z, y} \log(1 - D(G(z, y), y)) \qquad (1)

    The optimal discriminator is :math:`D = p(x \mid y) / (p(x \mid y) + q(x \mid y))`: a sample of the wrong class is
    found out, however good it is. The ``minimax`` generator minimizes the value of the game, the ``non_saturating`` one
    another loss instead.

    .. math:: -E_{z, y} \log D(G(z, y), y) \qquad (2)

    Both networks get the class y as a one-hot vector next to their other inputs, and work at unit scale. All methods
    are those of a GAN, conditioned on a class by ``given`` or ``context``.

    References:
        | Conditional Generative Adversarial Nets (Mirza and Osindero, 2014), https://arxiv.org/abs/1411.1784

    Arguments:
        features: The dimension of the data.
        classes: The number of classes.
        latent: The dimension of the noise :math:`z`.
        hidden: The widths of the hidden layers of both networks; their activation is leaky ReLU.
        game: The loss of the generator: ``non_saturating`` or ``minimax``.
        critic_steps: The number of the discriminator's steps for each of the generator's.
    """

    recipe = Recipe(optimizer="adam:betas=0.0/0.99", lr=2e-3, schedule="cosine", batch_size=128, epochs=150)

    def __init__(
        self,
        features: int,
        classes: int,
        latent: int = 16,
        hidden: tuple[int, ...] = (256, 256),
        game: GameName = "non_saturating",
        critic_steps: int = 1,
    ) -> None:
        at_least(1, classes=classes)
        generator, discriminator = (WithClass(net, classes) for net in dense_sides(features, latent, hidden, classes))
        super().__init__(features, latent, critic_steps, generator, discriminator, game)  # eqs. (1) and (2)
        self.classes = classes

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        y = torch.arange(32) % 3
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) + y.unsqueeze(1)
        return cls(features=2, classes=3, latent=2, hidden=(8,)), Labeled(x, y)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Samples of each class, as many as there are examples in x."""
        classes = torch.arange(min(self.classes, SHOWN)).repeat_interleave(len(x))
        drawn = self.sample(len(classes), context=classes, generator=generator).reshape(-1, *x.shape)
        return {f"class {label}": row for label, row in enumerate(drawn)}
