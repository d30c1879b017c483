"""Output heads whose distribution has the scale of the data, so that one network can predict series of any size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, NegativeBinomial, Normal, StudentT

from deepcanon.core import UsageError
from deepcanon.core.checks import one_of
from deepcanon.core.precision import full

Link = Literal["log", "softplus"]
"""How the mean of a count follows from the output of a network."""

UNKNOWN, COUNTS, OTHERS = range(3)
"""What the values are that a head suits."""


@runtime_checkable
class ScaledHead(Protocol):
    r"""A head with a scale :math:`\nu` besides the ``numbers`` outputs per target.

    ``counts`` says whether it is one of counts, and ``link`` how the mean of these follows from an output.
    """

    numbers: int

    @property
    def counts(self) -> bool: ...

    @property
    def link(self) -> Link | None: ...

    def distribution(self, outputs: Tensor, scale: Tensor) -> Distribution: ...


class ScaledGaussian(nn.Module):
    r"""A Gaussian head in units of the scale, around a level b, which is 0 unless it is given.

    .. math:: y \sim N(b + \nu \mu, (\nu \sigma)^2), \qquad \sigma = \sigma_0 + \log(1 + e^s)
    """

    SMALLEST = 1e-3
    numbers, counts, link = 2, False, None

    def distribution(self, outputs: Tensor, scale: Tensor, level: Tensor | float = 0.0) -> Distribution:
        mean, raw = full(outputs).chunk(2, dim=-1)
        return _rows(Normal(level + scale * mean, scale * (self.SMALLEST + F.softplus(raw)), validate_args=False))


class ScaledStudentT(nn.Module):
    r"""A Student-t head in units of the scale, for values with outliers; there are more than 2 degrees of freedom.

    .. math:: y = b + \nu (\mu + \sigma t_d), \qquad d = 2 + \log(1 + e^o), \qquad \sigma = \sigma_0 + \log(1 + e^s)
    """

    SMALLEST = 1e-3
    numbers, counts, link = 3, False, None

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


class ScaledByValues(nn.Module):
    r"""The head that suits the values: negative binomial (log link) if they are counts, Student-t if they are not.

    It is chosen once, by the first data that it is shown, and a Student-t until then. Counts are whole numbers from 0
    on whose mean index of dispersion is at least half:

    .. math:: I = \frac{(y_t - y_{t-1})^2}{y_t + y_{t-1}}

    Of independent Poisson counts of one mean its expectation is exactly 1. The variance of a negative binomial
    distribution is no less than its mean, so that it does not suit whole numbers that change by far less: temperatures
    in degrees, say, or the inhabitants of a town.
    """

    LEAST = 0.5
    numbers = 3
    chosen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.of_counts, self.of_others = ScaledNegativeBinomial(), ScaledStudentT()
        self.register_buffer("chosen", torch.tensor(UNKNOWN))
        self.counts = False
        """What ``chosen`` says, which a graph that is exported cannot ask."""
        self.register_load_state_dict_post_hook(lambda head, _: head._follow())  # type: ignore[no-untyped-call]

    @property
    def link(self) -> Link | None:
        return self.of_counts.link if self.counts else None

    def choose(self, series: Iterable[Tensor]) -> None:
        """Choose by batches of series (B, T, features), in which NaN count for nothing, unless that has been done."""
        if int(self.chosen) == UNKNOWN:
            self.chosen.fill_(COUNTS if self._are_counts(series) else OTHERS)
            self._follow()

    def _follow(self) -> None:
        self.counts = not self.chosen.is_meta and int(self.chosen) == COUNTS

    def _are_counts(self, series: Iterable[Tensor]) -> bool:
        total, pairs = 0.0, 0
        for values in series:
            if not bool((values.isnan() | (values >= 0) & (values == values.round())).all()):
                return False
            both = values[:, 1:] + values[:, :-1]
            index = (values.diff(dim=1).square() / both)[both > 0]
            total, pairs = total + float(index.sum()), pairs + len(index)
        return total >= self.LEAST * pairs > 0

    def distribution(self, outputs: Tensor, scale: Tensor, level: Tensor | float = 0.0) -> Distribution:
        if self.counts:
            return self.of_counts.distribution(outputs[..., : outputs.shape[-1] // self.numbers * 2], scale)
        return self.of_others.distribution(outputs, scale, level)


Scaled = ScaledGaussian | ScaledStudentT | ScaledNegativeBinomial | ScaledByValues


def scaled_head(name: str, link: Link | None = None) -> Scaled:
    """A new head with a scale by its name: auto, gaussian, student_t or negative_binomial, which alone has a link.

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


SCALED: dict[str, type[Scaled]] = {
    "auto": ScaledByValues,
    "gaussian": ScaledGaussian,
    "student_t": ScaledStudentT,
    "negative_binomial": ScaledNegativeBinomial,
}


def _rows(each: Distribution) -> Distribution:
    return Independent(each, 1, validate_args=False)
