"""Generalized linear model (GLM)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.distributions import Bernoulli, Distribution, Exponential, Normal, Poisson, constraints
from torch.distributions.constraints import Constraint

from deepcanon.core import DataError, How, Labeled, Terms, Turn, draw
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.distributions.inverse_gaussian import InverseGaussian
from deepcanon.models.linear._convex import Convex, convex

Family = Literal["gaussian", "bernoulli", "poisson", "gamma", "inverse_gaussian"]


@dataclass(frozen=True)
class ExponentialFamily:
    """An exponential family with the natural parameter eta: its log-normalizer A, its mean A' and its sampler."""

    log_normalizer: Callable[[Tensor], Tensor]
    surprise: Callable[[Tensor], Tensor]
    """Minus the logarithm of the base measure h of a target."""
    mean: Callable[[Tensor], Tensor]
    link: Callable[[Tensor], Tensor]
    """The canonical link function, the inverse of ``mean``."""
    distribution: Callable[[Tensor], Distribution]
    mode: Callable[[Tensor], Tensor]
    targets: Constraint
    says: str
    """The support of the targets, in words."""
    negative: bool = False
    """Whether eta has to be negative."""
    steep: bool = False
    """Whether the mean soon exceeds any number, so that a line search may step beyond what can be computed."""


LOG_2PI = math.log(2 * math.pi)

FAMILIES: dict[str, ExponentialFamily] = {
    "gaussian": ExponentialFamily(
        log_normalizer=lambda eta: eta.square() / 2,
        surprise=lambda y: (y.square() + LOG_2PI) / 2,
        mean=lambda eta: eta,
        link=lambda mean: mean,
        distribution=lambda eta: Normal(eta, 1.0, validate_args=False),
        mode=lambda eta: eta,
        targets=constraints.real,
        says="real numbers",
    ),
    "bernoulli": ExponentialFamily(
        log_normalizer=F.softplus,
        surprise=torch.zeros_like,
        mean=torch.sigmoid,
        link=torch.logit,
        distribution=lambda eta: Bernoulli(logits=eta, validate_args=False),
        mode=lambda eta: (eta > 0).to(eta.dtype),
        targets=constraints.unit_interval,
        says="from 0 to 1",
    ),
    "poisson": ExponentialFamily(
        log_normalizer=torch.exp,
        surprise=lambda y: torch.lgamma(y + 1),
        mean=torch.exp,
        link=torch.log,
        distribution=lambda eta: Poisson(eta.exp(), validate_args=False),
        mode=lambda eta: eta.exp().floor(),
        targets=constraints.nonnegative,
        says="0 or more",
        steep=True,
    ),
    "gamma": ExponentialFamily(
        log_normalizer=lambda eta: -(-eta).log(),
        surprise=torch.zeros_like,
        mean=lambda eta: -1 / eta,
        link=lambda mean: -1 / mean,
        distribution=lambda eta: Exponential(-eta, validate_args=False),
        mode=torch.zeros_like,
        targets=constraints.positive,
        says="above 0",
        negative=True,
        steep=True,
    ),
    "inverse_gaussian": ExponentialFamily(
        log_normalizer=lambda eta: -(-2 * eta).sqrt(),
        surprise=lambda y: (1 / y + LOG_2PI + 3 * y.log()) / 2,
        mean=lambda eta: (-2 * eta).rsqrt(),
        link=lambda mean: -0.5 / mean.square(),
        distribution=lambda eta: InverseGaussian((-2 * eta).rsqrt()),
        mode=lambda eta: InverseGaussian((-2 * eta).rsqrt()).mode,
        targets=constraints.positive,
        says="above 0",
        negative=True,
        steep=True,
    ),
}


class GLM(Convex):
    r"""A linear map to the natural parameters of an exponential family, with the canonical link function.

    Also known as: Poisson regression, gamma regression.

    .. math:: p(y \mid \eta) = h(y)\, e^{y \eta - A(\eta)}, \qquad \eta = W x + b, \qquad E[y] = A'(\eta) \qquad (1)

    ================ ======================== ========================= ============================
    family           :math:`A(\eta)`          mean :math:`A'(\eta)`     canonical link
    ================ ======================== ========================= ============================
    gaussian         :math:`\eta^2 / 2`       :math:`\eta`              :math:`\mu`
    bernoulli        :math:`\log(1 + e^\eta)` :math:`1 / (1+e^{-\eta})` :math:`\log(\mu / (1-\mu))`
    poisson          :math:`e^\eta`           :math:`e^\eta`            :math:`\log \mu`
    gamma            :math:`-\log(-\eta)`     :math:`-1 / \eta`         :math:`-1 / \mu`
    inverse_gaussian :math:`-\sqrt{-2 \eta}`  :math:`1/\sqrt{-2 \eta}`  :math:`-1 / (2 \mu^2)`
    ================ ======================== ========================= ============================

    with :math:`-\log h(y)` of :math:`(y^2 + \log 2\pi) / 2`, 0, :math:`\log y!`, 0 and :math:`(1/y + \log 2 \pi y^3) /
    2`. The loss, :math:`A(\eta) - y \eta - \log h(y)` summed over the targets, is the negative log-likelihood. It is
    convex, its gradient is :math:`A'(\eta) - y`, the mean minus the target, and at its minimum the residuals are
    orthogonal to every feature and sum to 0.

    Training begins with the best constant, the mean of the targets. All have the dispersion 1, which the minimum does
    not depend on; so the gamma distribution is the exponential one, with its mode at 0.

    Gamma and inverse Gaussian exist for :math:`\eta < 0` only, and the means of Poisson soon overflow. A line search
    may step there, so the loss that is minimized goes on as a straight line. It leaves the loss where a mean exceeds
    the sum of all targets, which no mean does at the minimum, as residuals sum to 0. Where an input far from the
    training data makes :math:`\eta \ge 0` of the first two, loss and predictions are refused. The multinomial family is
    ``softmax_regression``. The binomial one, of n trials each, is bernoulli with proportions k / n as targets.

    References:
        | Generalized Linear Models (Nelder and Wedderburn, 1972), https://doi.org/10.2307/2344614

    Arguments:
        features: The number of features of an example.
        targets: The number of targets.
        family: The distribution of the targets.
    """

    recipe = convex(epochs=20, iterations=25)

    edge: Tensor

    def __init__(self, features: int, targets: int, family: Family = "gaussian") -> None:
        super().__init__()
        at_least(1, features=features, targets=targets)
        one_of(get_args(Family), family=family)
        self.family = family
        self._build(features, outputs=targets)
        if FAMILIES[family].negative:
            nn.init.constant_(self.linear.bias, -1.0)
        if FAMILIES[family].steep:
            self.register_buffer("edge", FAMILIES[family].link(torch.full((targets,), 1e6)))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(32, 3, generator=generator)
        counts = draw(Poisson((0.3 * x[:, :1] + 2).exp()), generator)
        return cls(features=3, targets=1, family="poisson"), Labeled(x, counts)

    def forward(self, x: Tensor) -> Tensor:
        r"""The natural parameters :math:`\eta`, (B, targets)."""
        eta: Tensor = self.linear(flat(x, self.features))  # eq. (1)
        return eta

    def prepare(self, data: Iterable[Labeled]) -> None:
        """Refuse targets outside the support of the family, and begin with the mean of the targets."""
        super().prepare(data)
        family, count, total = FAMILIES[self.family], 0, torch.zeros((), dtype=torch.float64)
        for y in (batch.y for batch in data):
            if not bool(family.targets.check(y).all()):
                raise DataError(
                    f"targets of the family {self.family} are {family.says}, got {float(y.min()):.4g} to "
                    f"{float(y.max()):.4g}; take another family, or name a CSV file FILE.csv:raw, so that its "
                    "target is not standardized"
                )
            count, total = count + len(y), total + y.double().sum(0)
        if family.steep:
            self.edge.copy_(family.link(total.clamp_min(1)))
        if self.linear.bias.requires_grad and not bool(self.linear.weight.any()):  # untrained
            start = family.link(total / count)
            self.linear.bias.data.copy_(torch.where(start.isfinite(), start, self.linear.bias))

    def turns(self) -> Sequence[Turn[Labeled]]:
        return self._descents(self._continued if FAMILIES[self.family].steep else self.loss)

    def loss(self, batch: Labeled) -> Terms:
        eta = self._natural(batch.x).double()
        return self._nll(eta, FAMILIES[self.family].log_normalizer(eta), batch)

    def _continued(self, batch: Labeled) -> Terms:
        """The loss, and where a mean exceeds all targets together, the straight line that continues it."""
        eta, family = self(batch.x).double(), FAMILIES[self.family]
        inside = eta.minimum(self.edge)
        return self._nll(eta, family.log_normalizer(inside) + family.mean(self.edge) * (eta - inside), batch)

    def _nll(self, eta: Tensor, log_normalizer: Tensor, batch: Labeled) -> Terms:
        """The loss in double precision: of targets in the hundreds, single precision hides what a line search gains."""
        if batch.y.shape != eta.shape:  # broadcasting (B,) against (B, 1) would compare everything with everything
            raise DataError(f"the targets must have the shape {tuple(eta.shape)}, got {tuple(batch.y.shape)}")
        surprise = FAMILIES[self.family].surprise(batch.y)
        return {"nll": (log_normalizer - batch.y * eta + surprise).sum(-1).mean()}  # eq. (1)

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The most probable targets, their expectations or samples of them, (B, targets)."""
        one_of(("mode", "mean", "sample"), how=how)
        eta, family = self._natural(*inputs), FAMILIES[self.family]
        if how == "sample":
            return draw(family.distribution(eta), generator)
        return family.mode(eta) if how == "mode" else family.mean(eta)  # E[y] of eq. (1)

    def _natural(self, *inputs: Tensor) -> Tensor:
        """The natural parameters, (B, targets), refused where the family has no distribution for them."""
        eta: Tensor = self(*inputs)
        if FAMILIES[self.family].negative and not eta.is_meta and bool((eta >= 0).any()):
            raise DataError(
                f"the family {self.family} has natural parameters below 0 only, got up to {eta.max().item():.4g}; stay "
                "near the training inputs, or take another family"
            )
        return eta
