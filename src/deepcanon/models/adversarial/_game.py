"""Games of generators against discriminators: the base classes of the adversarial models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Descend, Model, Sampler, Support, Terms, Turn
from deepcanon.core.checks import at_least, flat
from deepcanon.core.conditional import given_batch
from deepcanon.core.precision import full
from deepcanon.core.turn import B
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.nn.dense import dense
from deepcanon.nn.rescale import Rescale, mean_and_std

SLOPE = 0.2
"""The slope of leaky ReLU below zero."""


class Game(Model[B]):
    """Generators and discriminators trained against each other: ``loss`` is the generators', who move last.

    A leaf gives both losses and ``sides``. The discriminators move at every step, the generators at every
    ``critic_steps``-th one.
    """

    surrogate = True
    critic_steps: int = 1

    @abstractmethod
    def discriminator_loss(self, batch: B) -> Terms:
        """The terms of the discriminators' loss."""

    @abstractmethod
    def sides(self) -> tuple[Sequence[nn.Module], Sequence[nn.Module]]:
        """The discriminators and the generators."""

    def constrain(self) -> None:
        """Called after each step of the discriminators: a leaf may keep their weights within bounds."""
        return

    def turns(self) -> Sequence[Turn[B]]:
        discriminators, generators = self.sides()
        return [
            Descend(self.discriminator_loss, _parameters(discriminators), name="discriminator", after=self.constrain),
            Descend(self.loss, _parameters(generators), name="generator", every=self.critic_steps),
        ]


class NoiseGame(Game[B], Sampler[B]):
    """A game whose one generator turns noise into samples, against one discriminator of data and samples.

    ``generator`` maps noise, (B, latent), to examples, and ``discriminator`` examples to one number each. Both work at
    unit scale: the last layer of the one and the first of the other shift and scale by the mean and the standard
    deviation of the training data.
    """

    def __init__(
        self, features: int, latent: int, critic_steps: int, generator: nn.Module, discriminator: nn.Module
    ) -> None:
        super().__init__()
        at_least(1, critic_steps=critic_steps)
        self.features = features
        self.latent = latent
        self.critic_steps = critic_steps
        self.generator = nn.Sequential(generator, Rescale(features))
        self.discriminator = nn.Sequential(Rescale(features), discriminator)

    @property
    def support(self) -> Support:
        return "real"

    def sides(self) -> tuple[Sequence[nn.Module], Sequence[nn.Module]]:
        return [self.discriminator], [self.generator]

    def prepare(self, data: Iterable[B]) -> None:
        """Take the mean and the standard deviation of the data, so that both networks work at unit scale."""
        mean, std = mean_and_std(data)
        if std > 0:
            cast(Rescale, self.generator[-1]).set(std, mean)
            cast(Rescale, self.discriminator[0]).set(1 / std, -mean / std)

    def metrics(self, batch: B) -> Terms:
        """The energy distance between as many samples and the data; of a conditional game, in the same contexts."""
        return {"energy_distance": energy_distance(full(given_batch(self, batch).sample(len(batch))), batch.x)}

    def discriminate(self, x: Tensor) -> Tensor:
        """The discriminator's number for each example, (B,): the larger, the more like data."""
        value: Tensor = self.discriminator(flat(x, self.features))
        return full(value).squeeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        """The discriminator's numbers, (B,)."""
        return self.discriminate(x)

    def _sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Generated examples, (n, features), with their gradient."""
        like = next(self.generator.parameters())
        z = torch.randn(n, self.latent, generator=generator, device=like.device, dtype=like.dtype)
        fake: Tensor = self.generator(z)
        return fake


def dense_sides(features: int, latent: int, hidden: tuple[int, ...]) -> tuple[nn.Sequential, nn.Sequential]:
    """A fully connected generator, and a discriminator with its widths in the reverse order."""
    at_least(1, features=features, latent=latent)
    leaky = partial(nn.LeakyReLU, SLOPE)
    return dense(latent, features, hidden, activation=leaky), dense(features, 1, hidden[::-1], activation=leaky)


def _parameters(modules: Sequence[nn.Module]) -> list[nn.Parameter]:
    return [parameter for module in modules for parameter in module.parameters()]
