"""Games of generators against discriminators: the base classes of the adversarial models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, cast, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import one_hot, softplus

from deepcanon.core import Descend, Model, Sampler, Support, Terms, Turn
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.core.conditional import Conditional, Context, given_batch
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
    in_random_order = True
    """Its metrics are distances of a whole batch, which must be drawn from all of a split: files are often sorted."""

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
    deviation of the training data. Both networks of a conditional game are also given the context.
    """

    def __init__(
        self, features: int, latent: int, critic_steps: int, generator: nn.Module, discriminator: nn.Module
    ) -> None:
        super().__init__()
        at_least(1, latent=latent, critic_steps=critic_steps)
        self.features = features
        self.latent = latent
        self.critic_steps = critic_steps
        self.generator: nn.Sequential = AtUnitScale(generator, Rescale(features))
        self.discriminator: nn.Sequential = AtUnitScale(Rescale(features), discriminator)

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
        value: Tensor = self.discriminator(self._examples(x), *self._told(len(x)))
        return full(value).squeeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        """The discriminator's numbers, (B,)."""
        return self.discriminate(x)

    def _sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Generated examples, (n, ...), with their gradient."""
        like = next(self.generator.parameters())
        z = torch.randn(n, self.latent, generator=generator, device=like.device, dtype=like.dtype)
        fake: Tensor = self.generator(z, *self._told(n))
        return fake

    def _examples(self, x: Tensor) -> Tensor:
        """The examples in the shape that the discriminator takes."""
        return flat(x, self.features)

    def _told(self, n: int) -> tuple[Context, ...]:
        """What both networks are given with each of n examples: the context of a conditional game, else nothing."""
        return (self._context(n),) if isinstance(self, Conditional) else ()


GameName = Literal["non_saturating", "minimax"]


class LogisticGame(NoiseGame[B]):
    r"""A game whose discriminator gives the logit of an example to be of the data, trained by logistic regression.

    .. math:: \min_G \max_D \; E_x \log D(x) + E_z \log(1 - D(G(z))) \qquad (1)

    .. math:: -E_z \log D(G(z)) \qquad (2)

    The ``minimax`` generator minimizes the value of the game (1), the ``non_saturating`` one minimizes (2).
    """

    def __init__(
        self,
        features: int,
        latent: int,
        critic_steps: int,
        generator: nn.Module,
        discriminator: nn.Module,
        game: GameName,
    ) -> None:
        one_of(get_args(GameName), game=game)
        super().__init__(features, latent, critic_steps, generator, discriminator)
        self.game = game

    def discriminator_loss(self, batch: B) -> Terms:
        """The binary cross-entropy of data (``real``) against samples (``fake``): minus the value of the game."""
        model = given_batch(self, batch)
        fake = model.sample(len(batch))
        return {
            "real": softplus(-model.discriminate(batch.x)).mean(),  # -log D(x), eq. (1)
            "fake": softplus(model.discriminate(fake)).mean(),  # -log(1 - D(G(z))), eq. (1)
        }

    def loss(self, batch: B) -> Terms:
        model = given_batch(self, batch)
        logits = model.discriminate(model._sample(len(batch)))  # log D - log(1 - D)
        if self.game == "minimax":
            return {"generator": -softplus(logits).mean()}  # log(1 - D(G(z))), eq. (1)
        return {"generator": softplus(-logits).mean()}  # eq. (2)


class AtUnitScale(nn.Sequential):
    """A network with a :class:`Rescale` before or after it, called with examples or noise and a context, if any."""

    def forward(self, x: Tensor, *context: Context) -> Tensor:
        for layer in self:
            x = layer(x) if isinstance(layer, Rescale) else layer(x, *context)
        return x


class WithClass(nn.Module):
    """A network of vectors that is also given their classes, one-hot, as further features."""

    def __init__(self, net: nn.Module, classes: int) -> None:
        super().__init__()
        self.net = net
        self.classes = classes

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        outputs: Tensor = self.net(torch.cat([x, one_hot(labels, self.classes).to(x)], 1))
        return outputs


def dense_sides(
    features: int, latent: int, hidden: tuple[int, ...], classes: int = 0
) -> tuple[nn.Sequential, nn.Sequential]:
    """A fully connected generator, and a discriminator with its widths in the reverse order.

    Each has as many further inputs as there are ``classes``.
    """
    at_least(1, features=features, latent=latent)
    leaky = partial(nn.LeakyReLU, SLOPE)
    return (
        dense(latent + classes, features, hidden, activation=leaky),
        dense(features + classes, 1, hidden[::-1], activation=leaky),
    )


def _parameters(modules: Sequence[nn.Module]) -> list[nn.Parameter]:
    return [parameter for module in modules for parameter in module.parameters()]
