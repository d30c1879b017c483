"""Generative adversarial network (GAN)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, Self, cast, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

from deepcanon.core import Batch, Descend, Recipe, Sampler, Support, Terms, Turn
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.core.precision import full
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.nn.dense import dense
from deepcanon.nn.rescale import Rescale, mean_and_std

Game = Literal["non_saturating", "minimax"]


class GAN(Sampler[Batch]):
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
    """

    recipe = Recipe(optimizer="adam:betas=0.0/0.99", lr=4e-3, schedule="cosine", batch_size=128, epochs=50)
    surrogate = True

    def __init__(
        self,
        features: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (128, 128),
        game: Game = "non_saturating",
    ) -> None:
        super().__init__()
        at_least(1, features=features, latent=latent)
        one_of(get_args(Game), game=game)
        self.features = features
        self.latent = latent
        self.game = game
        leaky = partial(nn.LeakyReLU, 0.2)
        self.generator = nn.Sequential(dense(latent, features, hidden, activation=leaky), Rescale(features))
        self.discriminator = nn.Sequential(Rescale(features), dense(features, 1, hidden[::-1], activation=leaky))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) + 1
        return cls(features=2, latent=2, hidden=(8,)), Batch(x)

    @property
    def support(self) -> Support:
        return "real"

    def prepare(self, data: Iterable[Batch]) -> None:
        """Take the mean and the standard deviation of the data, so that both networks work at unit scale."""
        mean, std = mean_and_std(data)
        if std > 0:
            cast(Rescale, self.generator[-1]).set(std, mean)
            cast(Rescale, self.discriminator[0]).set(1 / std, -mean / std)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [
            Descend(self.discriminator_loss, self.discriminator.parameters(), name="discriminator"),
            Descend(self.loss, self.generator.parameters(), name="generator"),
        ]

    def discriminator_loss(self, batch: Batch) -> Terms:
        """The binary cross-entropy of data (``real``) against samples (``fake``): minus the value of the game."""
        fake = self.sample(len(batch))
        return {
            "real": softplus(-self.discriminate(batch.x)).mean(),  # -log D(x), eq. (1)
            "fake": softplus(self.discriminate(fake)).mean(),  # -log(1 - D(G(z))), eq. (1)
        }

    def loss(self, batch: Batch) -> Terms:
        logits = self.discriminate(self._generate(len(batch)))
        if self.game == "minimax":
            return {"generator": -softplus(logits).mean()}  # log(1 - D(G(z))), eq. (1)
        return {"generator": softplus(-logits).mean()}  # eq. (2)

    def metrics(self, batch: Batch) -> Terms:
        """The energy distance between as many samples and the data."""
        return {"energy_distance": energy_distance(full(self.sample(len(batch))), batch.x)}

    def discriminate(self, x: Tensor) -> Tensor:
        """The logit that each example is data and not a sample, (B,): log D - log(1 - D)."""
        logits: Tensor = self.discriminator(flat(x, self.features))
        return full(logits).squeeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        """The discriminator's logits, (B,)."""
        return self.discriminate(x)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return self._generate(n, generator)

    def _generate(self, n: int, generator: Generator | None = None) -> Tensor:
        like = next(self.generator.parameters())
        z = torch.randn(n, self.latent, generator=generator, device=like.device, dtype=like.dtype)
        fake: Tensor = self.generator(z)
        return fake
