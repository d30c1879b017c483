"""Generalised linear models with their canonical links."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.distributions import Bernoulli, Distribution, Normal, Poisson

from deepcanon.core import DataError, How, Labelled, Model, Recipe, Terms, draw
from deepcanon.nn.checks import at_least, flat, one_of

Family = Literal["gaussian", "bernoulli", "poisson"]


@dataclass(frozen=True)
class Exponential:
    """An exponential family of natural parameter eta: its log-normaliser A, its mean A', and what it draws."""

    log_normaliser: Callable[[Tensor], Tensor]
    mean: Callable[[Tensor], Tensor]
    distribution: Callable[[Tensor], Distribution]
    mode: Callable[[Tensor], Tensor]
    within: tuple[float, float]
    """Between which values targets lie."""


FAMILIES: dict[str, Exponential] = {
    "gaussian": Exponential(
        log_normaliser=lambda eta: eta.square() / 2,
        mean=lambda eta: eta,
        distribution=lambda eta: Normal(eta, 1.0, validate_args=False),
        mode=lambda eta: eta,
        within=(-torch.inf, torch.inf),
    ),
    "bernoulli": Exponential(
        log_normaliser=F.softplus,
        mean=torch.sigmoid,
        distribution=lambda eta: Bernoulli(logits=eta, validate_args=False),
        mode=lambda eta: (eta > 0).to(eta.dtype),
        within=(0.0, 1.0),
    ),
    "poisson": Exponential(
        log_normaliser=torch.exp,
        mean=torch.exp,
        distribution=lambda eta: Poisson(eta.exp(), validate_args=False),
        mode=lambda eta: eta.exp().floor(),
        within=(0.0, torch.inf),
    ),
}


class GLM(Model[Labelled]):
    r"""A linear map that gives the natural parameters of an exponential family.

    .. math:: p(y \mid \eta) \propto e^{y \eta - A(\eta)}, \qquad \eta = W x + b, \qquad E[y] = A'(\eta) \qquad (1)

    ========= ======================== ========================= ======================
    family    :math:`A(\eta)`          mean :math:`A'(\eta)`     canonical link
    ========= ======================== ========================= ======================
    gaussian  :math:`\eta^2 / 2`       :math:`\eta`              identity
    bernoulli :math:`\log(1 + e^\eta)` :math:`1 / (1+e^{-\eta})` logit
    poisson   :math:`e^\eta`           :math:`e^\eta`            logarithm
    ========= ======================== ========================= ======================

    The loss, :math:`A(\eta) - y \eta` summed over the targets, is minus the log-likelihood without what does not depend
    on :math:`\eta`. It is convex, and at its minimum the residuals :math:`y - A'(\eta)` are orthogonal to every feature
    and sum to 0.

    References:
        | Generalized Linear Models (Nelder and Wedderburn, 1972), https://doi.org/10.2307/2344614

    Arguments:
        features: The number of features of an example.
        targets: The number of targets.
        family: The distribution of the targets.
    """

    recipe = Recipe(lr=2e-2, schedule="cosine", epochs=50)

    def __init__(self, features: int, targets: int, family: Family = "gaussian") -> None:
        super().__init__()
        at_least(1, features=features, targets=targets)
        one_of(get_args(Family), family=family)
        self.features = features
        self.family = family
        self.linear = nn.Linear(features, targets)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    @classmethod
    def example(cls) -> tuple[Self, Labelled]:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(32, 3, generator=generator)
        return cls(features=3, targets=1, family="poisson"), Labelled(x, draw(Poisson(x[:, :1].exp()), generator))

    def forward(self, x: Tensor) -> Tensor:
        r"""The natural parameters :math:`\eta`, (B, targets)."""
        eta: Tensor = self.linear(flat(x, self.features))
        return eta

    def prepare(self, data: Iterable[Labelled]) -> None:
        """Refuse targets that the family does not have."""
        least, most = FAMILIES[self.family].within
        for y in (batch.y for batch in data):
            if bool(((y < least) | (y > most)).any()):
                raise DataError(
                    f"targets of the family {self.family} lie between {least:g} and {most:g}, got "
                    f"{float(y.min()):.4g} to {float(y.max()):.4g}; for standardised targets, as those of a CSV file "
                    "are, take the family gaussian"
                )

    def loss(self, batch: Labelled) -> Terms:
        eta = self(batch.x)
        if batch.y.shape != eta.shape:  # broadcasting (B,) against (B, 1) would compare everything with everything
            raise DataError(f"the targets must have the shape {tuple(eta.shape)}, got {tuple(batch.y.shape)}")
        return {"nll": (FAMILIES[self.family].log_normaliser(eta) - batch.y * eta).sum(-1).mean()}  # eq. (1)

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The most probable targets, their expectations or drawn ones, (B, targets)."""
        one_of(("mode", "mean", "sample"), how=how)
        eta, family = self(*inputs), FAMILIES[self.family]
        if how == "sample":
            return draw(family.distribution(eta), generator)
        return family.mode(eta) if how == "mode" else family.mean(eta)
