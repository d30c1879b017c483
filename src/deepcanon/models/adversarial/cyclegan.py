"""Cycle-consistent adversarial networks (CycleGAN)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, Self, cast, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import Absorb, Batch, DataError, ImagePairs, Recipe, Terms, Turn, TwoDomains, UsageError
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.core.precision import full
from deepcanon.core.roles import Domain
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.models.adversarial._game import SLOPE, Game
from deepcanon.models.adversarial._history import History
from deepcanon.nn.connections import Residual
from deepcanon.nn.dense import dense
from deepcanon.nn.image_ends import ImageRows, ImageShape, known_shape
from deepcanon.nn.rescale import Rescale, mean_and_std

DOMAINS: tuple[Domain, ...] = ("x", "y")
WAYS: tuple[tuple[Domain, Domain], ...] = (("x", "y"), ("y", "x"))
"""Both ways to map: from a domain to the other one."""
Network = Literal["mlp", "convolutional"]
HIDDEN: dict[Network, tuple[int, ...]] = {"mlp": (64, 64), "convolutional": (16, 32)}


class CycleGAN(Game[TwoDomains]):
    r"""Two generators that map unpaired domains to each other, each against a discriminator of its target domain.

    The discriminators classify by least squares. Only that of domain y is written here, with the generator G from x to
    y; F, from y to x, has one of its own.

    .. math:: \min_D \tfrac12 E_y (D(y) - 1)^2 + \tfrac12 E_x D(G(x))^2 \qquad (1)

    .. math:: \min_G E_x (D(G(x)) - 1)^2 \qquad (2)

    Many maps have the right distribution of outputs. There and back again, an example must come out as it was, which
    leaves fewer (with D features):

    .. math:: \frac{\lambda}{D} \left( E_x \lVert F(G(x)) - x \rVert_1 + E_y \lVert G(F(y)) - y \rVert_1 \right)
              \qquad (3)

    Optionally, an example that is in the target domain already must stay as it is:

    .. math:: \frac{\lambda_I}{D} \left( E_y \lVert G(y) - y \rVert_1 + E_x \lVert F(x) - x \rVert_1 \right)
              \qquad (4)

    Half of the generated examples that a discriminator sees come from a history of those of earlier steps. All networks
    work at unit scale: each domain is shifted and scaled by its mean and its standard deviation. Dense generators learn
    what they change, and begin near the identity. Convolutional ones are for images that differ by their looks, not by
    where things are.

    The mapping of digits to inverted colors, in half a minute on one core::

        deepcanon train cyclegan --data inverted-digits --network convolutional --cycle 5 --steps 150

    References:
        | Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial Networks (Zhu et al., 2017),
          https://arxiv.org/abs/1703.10593
        | Least Squares Generative Adversarial Networks (Mao et al., 2017), https://arxiv.org/abs/1611.04076

    Arguments:
        features: The dimension of both domains.
        channels: The channels of an image, where the data are images.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        network: The networks: ``mlp``, dense, or ``convolutional``, for images.
        hidden: The widths of the hidden layers of all networks, or the channels of their convolutions; their activation
            is leaky ReLU.
        cycle: The weight :math:`\lambda` of cycle consistency; the paper has 10, for images and other networks.
        identity: The weight :math:`\lambda_I` of the identity loss.
        history: The number of generated examples of each domain that are kept; 0 keeps none.
    """

    recipe = Recipe(optimizer="adam:betas=0.5/0.999", lr=3e-3, schedule="cosine", batch_size=128, epochs=40)
    default_data = "two-domains"

    def __init__(
        self,
        features: int,
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
        network: Network = "mlp",
        hidden: tuple[int, ...] | None = None,
        cycle: float = 0.3,
        identity: float = 0.0,
        history: int = 512,
    ) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(0, history=history)
        one_of(get_args(Network), network=network)
        if cycle < 0 or identity < 0:
            raise UsageError(f"the weights cycle and identity may not be negative (got {cycle} and {identity})")
        self.features = features
        self.network = network
        self.cycle = cycle
        self.identity = identity
        self.history = history
        hidden = HIDDEN[network] if hidden is None else hidden
        image = (channels, height, width)
        self.unit = nn.ModuleDict({domain: Rescale(features) for domain in DOMAINS})
        self.generators = nn.ModuleDict({to: _generator(network, features, image, hidden) for to in DOMAINS})
        self.discriminators = nn.ModuleDict({to: _discriminator(network, features, image, hidden) for to in DOMAINS})
        self.histories = nn.ModuleDict({to: History(history, features) for to in DOMAINS})

    @classmethod
    def example(cls) -> tuple[Self, TwoDomains]:
        x, y = torch.randn(2, 32, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=2, hidden=(8,), identity=1.0, history=64), TwoDomains(x + 1, y - 1)

    def prepare(self, data: Iterable[TwoDomains]) -> None:
        """Take the mean and the standard deviation of each domain, so that all networks work at unit scale."""
        for batch in data:
            sizes = [getattr(batch, domain)[0].numel() for domain in DOMAINS]
            if sizes != [self.features] * 2:
                raise DataError(f"both domains have {self.features} values an example; got {sizes[0]} and {sizes[1]}")
        for domain in DOMAINS:
            mean, std = mean_and_std(Batch(getattr(batch, domain)) for batch in data)
            if self.network == "convolutional":
                std = (std.square() + mean.var(correction=0)).sqrt()
                mean = mean.mean().expand_as(mean)  # a convolution treats all pixels alike
            if std > 0:
                self._unit(domain).set(1 / std, -mean / std)

    def sides(self) -> tuple[Sequence[nn.Module], Sequence[nn.Module]]:
        return [self.discriminators], [self.generators]

    def turns(self) -> Sequence[Turn[TwoDomains]]:
        remember = [Absorb(self.remember, name="history")] if self.history > 0 else []
        return [*super().turns(), *remember]

    def discriminator_loss(self, batch: TwoDomains) -> Terms:
        terms: Terms = {}
        for here, to in WAYS:
            with torch.no_grad():
                fake = self._history(to).mixed(self._generate(self._of(batch, here), to))
            terms[f"real_{to}"] = (self._judge(self._of(batch, to), to) - 1).square().mean() / 2  # eq. (1)
            terms[f"fake_{to}"] = self._judge(fake, to).square().mean() / 2  # eq. (1)
        return terms

    def loss(self, batch: TwoDomains) -> Terms:
        terms: Terms = {}
        for here, to in WAYS:
            x = self._of(batch, here)
            fake = self._generate(x, to)
            terms[f"adversarial_{to}"] = (self._judge(fake, to) - 1).square().mean()  # eq. (2)
            terms[f"cycle_{here}"] = self.cycle * (self._generate(fake, here) - x).abs().mean()  # eq. (3)
            if self.identity > 0:
                terms[f"identity_{here}"] = self.identity * (self._generate(x, here) - x).abs().mean()  # eq. (4)
        return terms

    def remember(self, batch: TwoDomains) -> None:
        """Put generated examples into the history."""
        for here, to in WAYS:
            self._history(to).keep(self._generate(self._of(batch, here), to))

    def map(self, x: Tensor, to: Domain = "y") -> Tensor:
        """The examples of the one domain mapped to the other, in the shape of ``x``."""
        one_of(DOMAINS, to=to)
        unit = self._unit("x" if to == "y" else "y")(flat(x, self.features))
        return self._unit(to).inverse(self._generate(unit, to)).reshape(x.shape)

    def forward(self, x: Tensor) -> Tensor:
        """The examples of domain x mapped to domain y, in their shape."""
        return self.map(x)

    def metrics(self, batch: TwoDomains) -> Terms:
        """Means over both ways, at unit scale: distances of outputs to their domain, of cycles, of pairs.

        Of pairs also the share of outputs whose nearest example of the other domain is their own partner.
        """
        found: dict[str, list[Tensor]] = {
            name: [] for name in ("energy_distance", "cycle_distance", "pair_distance", "partner_found")
        }
        for here, to in WAYS:
            x, target = self._of(batch, here), self._of(batch, to)
            fake = self._generate(x, to)
            found["energy_distance"].append(energy_distance(fake, target))
            found["cycle_distance"].append(_distance(self._generate(fake, here), x))
            if isinstance(batch, ImagePairs):
                found["pair_distance"].append(_distance(fake, target))
                found["partner_found"].append(_partner_found(fake, target))
        return {name: torch.stack(both).mean() for name, both in found.items() if both}

    def _of(self, batch: TwoDomains, domain: Domain) -> Tensor:
        """The examples of a domain, flat and at unit scale."""
        unit: Tensor = self._unit(domain)(flat(getattr(batch, domain), self.features))
        return unit

    def _generate(self, x: Tensor, to: Domain) -> Tensor:
        return full(self.generators[to](x))

    def _judge(self, x: Tensor, domain: Domain) -> Tensor:
        """The discriminator's number for each example, (B,): about 1 for those of its domain, 0 for generated ones."""
        return full(self.discriminators[domain](x)).squeeze(-1)

    def _unit(self, domain: Domain) -> Rescale:
        return cast(Rescale, self.unit[domain])

    def _history(self, domain: Domain) -> History:
        return cast(History, self.histories[domain])


def _generator(network: Network, features: int, image: ImageShape, hidden: tuple[int, ...]) -> nn.Module:
    if network == "mlp":
        return Residual(dense(features, features, hidden, activation=partial(nn.LeakyReLU, SLOPE)))
    shape = known_shape(features, image)
    layers: list[nn.Module] = []
    channels = shape[0]
    for wider in hidden:
        layers += [nn.Conv2d(channels, wider, 3, padding=1), nn.LeakyReLU(SLOPE)]
        channels = wider
    return ImageRows(shape, *layers, nn.Conv2d(channels, shape[0], 3, padding=1))


def _discriminator(network: Network, features: int, image: ImageShape, hidden: tuple[int, ...]) -> nn.Module:
    if network == "mlp":
        return dense(features, 1, hidden, activation=partial(nn.LeakyReLU, SLOPE))
    shape = known_shape(features, image)
    if min(shape[1:]) < 2 ** len(hidden):
        raise UsageError(f"{len(hidden)} convolutions halve {shape[1]}x{shape[2]} pixels too often; give fewer widths")
    layers: list[nn.Module] = []
    channels = shape[0]
    for wider in hidden:
        layers += [nn.Conv2d(channels, wider, 4, stride=2, padding=1), nn.LeakyReLU(SLOPE)]
        channels = wider
    left = (shape[1] >> len(hidden)) * (shape[2] >> len(hidden))  # the pixels of the smallest maps
    return nn.Sequential(ImageRows(shape, *layers), nn.Linear(channels * left, 1))


def _partner_found(mapped: Tensor, partners: Tensor) -> Tensor:
    """The share of mapped examples whose nearest of all ``partners`` is their own."""
    nearest = torch.cdist(mapped, partners).argmin(1)
    return (nearest == torch.arange(len(mapped), device=mapped.device)).to(mapped.dtype).mean()


def _distance(x: Tensor, y: Tensor) -> Tensor:
    """The mean distance of examples, in standard deviations of a feature."""
    return (x - y).square().mean(1).sqrt().mean()
