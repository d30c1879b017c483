"""Cycle-consistent adversarial networks (CycleGAN)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, Self, cast

import torch
from torch import Tensor, nn

from deepcanon.core import Absorb, Batch, ImagePairs, Recipe, Terms, Turn, TwoDomains
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.core.precision import full
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.models.adversarial._game import SLOPE, Game
from deepcanon.models.adversarial._history import History
from deepcanon.nn.connections import Residual
from deepcanon.nn.dense import dense
from deepcanon.nn.rescale import Rescale, mean_and_std

Domain = Literal["x", "y"]
WAYS: tuple[tuple[Domain, Domain], ...] = (("x", "y"), ("y", "x"))
"""Both ways to map: from a domain to the other one."""


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
    work at unit scale: each domain is shifted and scaled by its mean and its standard deviation.

    References:
        | Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial Networks (Zhu et al., 2017),
          https://arxiv.org/abs/1703.10593
        | Least Squares Generative Adversarial Networks (Mao et al., 2017), https://arxiv.org/abs/1611.04076

    Arguments:
        features: The dimension of both domains.
        hidden: The widths of the hidden layers of all networks; their activation is leaky ReLU.
        cycle: The weight :math:`\lambda` of cycle consistency; the paper has 10, for images and other networks.
        identity: The weight :math:`\lambda_I` of the identity loss.
        history: The number of generated examples of each domain that are kept; 0 keeps none.
    """

    recipe = Recipe(optimizer="adam:betas=0.5/0.999", lr=3e-3, schedule="cosine", batch_size=128, epochs=40)

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (64, 64),
        cycle: float = 0.3,
        identity: float = 0.0,
        history: int = 512,
    ) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(0, cycle=cycle, identity=identity, history=history)
        self.features = features
        self.cycle = cycle
        self.identity = identity
        self.unit = nn.ModuleDict({domain: Rescale(features) for domain in ("x", "y")})
        leaky = partial(nn.LeakyReLU, SLOPE)
        self.generators = nn.ModuleDict(
            {to: Residual(dense(features, features, hidden, activation=leaky)) for _, to in WAYS}
        )
        self.discriminators = nn.ModuleDict({to: dense(features, 1, hidden, activation=leaky) for _, to in WAYS})
        self.histories = nn.ModuleDict({to: History(history, features) for _, to in WAYS})

    @classmethod
    def example(cls) -> tuple[Self, TwoDomains]:
        x, y = torch.randn(2, 32, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=2, hidden=(8,), history=8, identity=1.0), TwoDomains(x + 1, y - 1)

    def prepare(self, data: Iterable[TwoDomains]) -> None:
        """Take the mean and the standard deviation of each domain, so that all networks work at unit scale."""
        batches = list(data)
        for domain in ("x", "y"):
            mean, std = mean_and_std(Batch(getattr(batch, domain)) for batch in batches)
            if std > 0:
                cast(Rescale, self.unit[domain]).set(1 / std, -mean / std)

    def sides(self) -> tuple[Sequence[nn.Module], Sequence[nn.Module]]:
        return [self.discriminators], [self.generators]

    def turns(self) -> Sequence[Turn[TwoDomains]]:
        remember = Absorb(self.remember, name="history")
        return [*super().turns(), *([remember] if len(self.histories["x"]) else [])]

    def discriminator_loss(self, batch: TwoDomains) -> Terms:
        terms: Terms = {}
        for here, to in WAYS:
            with torch.no_grad():
                fake = self.histories[to].mixed(self.generators[to](self._unit(batch, here)))
            real = self._unit(batch, to)
            terms[f"real_{to}"] = (self._judge(real, to) - 1).square().mean() / 2  # eq. (1)
            terms[f"fake_{to}"] = self._judge(fake, to).square().mean() / 2  # eq. (1)
        return terms

    def loss(self, batch: TwoDomains) -> Terms:
        terms: Terms = {}
        for here, to in WAYS:
            x = self._unit(batch, here)
            fake = self.generators[to](x)
            terms[f"adversarial_{to}"] = (self._judge(fake, to) - 1).square().mean()  # eq. (2)
            terms[f"cycle_{here}"] = self.cycle * (full(self.generators[here](fake)) - x).abs().mean()  # eq. (3)
            if self.identity > 0:
                terms[f"identity_{here}"] = self.identity * (full(self.generators[here](x)) - x).abs().mean()  # eq. (4)
        return terms

    def remember(self, batch: TwoDomains) -> None:
        """Put generated examples into the history."""
        for here, to in WAYS:
            self.histories[to].keep(self.generators[to](self._unit(batch, here)))

    def map(self, x: Tensor, to: Domain = "y") -> Tensor:
        """The examples of the one domain mapped to the other, in the shape of ``x``."""
        one_of(("x", "y"), to=to)
        here = "x" if to == "y" else "y"
        return self.unit[to].inverse(self.generators[to](self.unit[here](flat(x, self.features)))).reshape(x.shape)

    def forward(self, x: Tensor) -> Tensor:
        """The examples of domain x mapped to domain y, in their shape."""
        return self.map(x)

    def metrics(self, batch: TwoDomains) -> Terms:
        """Means over both ways, at unit scale: distance to the target domain, error of the cycle, and that of pairs."""
        found: dict[str, list[Tensor]] = {}
        for here, to in WAYS:
            x, target = self._unit(batch, here), self._unit(batch, to)
            fake = full(self.generators[to](x))
            found.setdefault("energy_distance", []).append(energy_distance(fake, target))
            found.setdefault("cycle_error", []).append(_error(full(self.generators[here](fake)), x))
            if isinstance(batch, ImagePairs):
                found.setdefault("pair_error", []).append(_error(fake, target))
        return {name: torch.stack(both).mean() for name, both in found.items()}

    def _unit(self, batch: TwoDomains, domain: Domain) -> Tensor:
        scaled: Tensor = self.unit[domain](flat(getattr(batch, domain), self.features))
        return scaled

    def _judge(self, x: Tensor, domain: Domain) -> Tensor:
        """How much the discriminator of a domain takes each example for one of it, (B,): about 1 or about 0."""
        return full(self.discriminators[domain](x)).squeeze(-1)


def _error(found: Tensor, true: Tensor) -> Tensor:
    """The mean distance, in standard deviations of a feature."""
    return (found - true).square().mean(1).sqrt().mean()
