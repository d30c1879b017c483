"""Output heads whose distribution has the scale of the data, so that one network can predict series of any size."""

from __future__ import annotations

from typing import Literal, Protocol, get_args, runtime_checkable

import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, NegativeBinomial, Normal, StudentT

from deepcanon.core import UsageError
from deepcanon.core.checks import one_of
from deepcanon.core.precision import full

Link = Literal["log", "softplus"]
"""How the mean of a count follows from the output of a network."""


@runtime_checkable
class ScaledHead(Protocol):
    r"""A head with a scale :math:`\nu` besides the ``numbers`` outputs per target; ``counts`` says of what values."""

    numbers: int
    counts: bool

    def distribution(self, outputs: Tensor, scale: Tensor) -> Distribution: ...


class ScaledGaussian(nn.Module):
    r"""A Gaussian head in units of the scale, around a level b, which is 0 unless it is given.

    .. math:: y \sim N(b + \nu \mu, (\nu \sigma)^2), \qquad \sigma = \sigma_0 + \log(1 + e^s)
    """

    SMALLEST = 1e-3
    numbers, counts = 2, False

    def distribution(self, outputs: Tensor, scale: Tensor, level: Tensor | float = 0.0) -> Distribution:
        mean, raw = full(outputs).chunk(2, dim=-1)
        return _rows(Normal(level + scale * mean, scale * (self.SMALLEST + F.softplus(raw)), validate_args=False))


class ScaledStudentT(nn.Module):
    r"""A Student-t head in units of the scale, for values with outliers; there are more than 2 degrees of freedom.

    .. math:: y = b + \nu (\mu + \sigma t_d), \qquad d = 2 + \log(1 + e^o), \qquad \sigma = \sigma_0 + \log(1 + e^s)
    """

    SMALLEST = 1e-3
    numbers, counts = 3, False

    def distribution(self, outputs: Tensor, scale: Tensor, level: Tensor | float = 0.0) -> Distribution:
        mean, raw, freedom = full(outputs).chunk(3, dim=-1)
        spread = scale * (self.SMALLEST + F.softplus(raw))
        return _rows(StudentT(2 + F.softplus(freedom), level + scale * mean, spread, validate_args=False))


class ScaledNegativeBinomial(nn.Module):
    r"""A negative binomial head for counts, with the mean m in units of the scale and the shape falling with its root.

    .. math:: m = \nu e^o \quad \text{or} \quad m = \nu \log(1 + e^o), \qquad a = \log(1 + e^s) / \sqrt\nu, \qquad
              E y = m, \qquad \mathrm{Var}\, y = m + a m^2

    The first is the log link of count regression, by which effects multiply, the second is DeepAR's. It is computed
    in double precision: of large counts the logarithms of factorials cancel.

    References:
        | DeepAR: Probabilistic forecasting with autoregressive recurrent networks (Salinas et al., 2020),
          https://arxiv.org/abs/1704.04110

    Arguments:
        link: How the mean follows from the output o: "log" or "softplus".
    """

    SMALLEST = 1e-6
    FARTHEST = 15.0
    """The logarithm of the mean is within so much of that of the scale, so that no draw overflows."""
    numbers, counts = 2, True

    def __init__(self, link: Link = "log") -> None:
        super().__init__()
        one_of(get_args(Link), link=link)
        self.link = link

    def distribution(self, outputs: Tensor, scale: Tensor) -> Distribution:
        mean, raw = outputs.double().chunk(2, dim=-1)
        if self.link == "log":
            log_mean = mean.clamp(-self.FARTHEST, self.FARTHEST)
        else:
            log_mean = (self.SMALLEST + F.softplus(mean)).log()
        shape, root = self.SMALLEST + F.softplus(raw), scale.double().sqrt()
        total = root / shape  # 1 / a
        logits = log_mean + shape.log() + root.log()  # log m a
        return _rows(NegativeBinomial(total, logits=logits, validate_args=False))


def scaled_head(name: str, link: Link | None = None) -> ScaledGaussian | ScaledStudentT | ScaledNegativeBinomial:
    """A new head with a scale by its name: gaussian, student_t or negative_binomial, which alone has a link.

    >>> import torch
    >>> scaled_head("gaussian").distribution(torch.tensor([[2.0, 0.0]]), torch.tensor([[10.0]])).mean
    tensor([[20.]])
    """
    one_of(SCALED, head=name)
    if link is None:
        return SCALED[name]()
    if name != "negative_binomial":
        raise UsageError(
            f"the link is that of the mean of counts; leave it out, or take head=negative_binomial ({name})"
        )
    return ScaledNegativeBinomial(link)


SCALED: dict[str, type[ScaledGaussian | ScaledStudentT | ScaledNegativeBinomial]] = {
    "gaussian": ScaledGaussian,
    "student_t": ScaledStudentT,
    "negative_binomial": ScaledNegativeBinomial,
}


def _rows(each: Distribution) -> Distribution:
    return Independent(each, 1, validate_args=False)
