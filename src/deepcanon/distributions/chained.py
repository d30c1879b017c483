"""Chained latent variables: each is drawn given the one before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

Step = Callable[[Tensor], Distribution]


class Chained(Distribution):
    r"""A chain of vectors: the first has the distribution ``first``, each further one that of its step.

    .. math:: p(z_1, \dots, z_L) = p(z_1) \prod_{l=2}^L p(z_l \mid z_{l-1})

    It is a Markov chain, unless it has a ``memory``: then a step is given all vectors before it, side by side in the
    order of drawing.

    A value holds all of them side by side in the order in which they are drawn, or, if ``backward``, in the reverse
    order. So a posterior, which is drawn from the data upwards, and a prior, which is drawn from the top downwards, are
    distributions of the same values. ``sizes`` are the dimensions in the order of drawing.

    References:
        | Ladder Variational Autoencoders (Sonderby et al., 2016), https://arxiv.org/abs/1602.02282

    >>> from torch.distributions import Independent, Normal
    >>> start = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
    >>> chain = Chained(start, [lambda z: Independent(Normal(z[..., :1], 1.0), 1)], sizes=(2, 1))
    >>> chain.sample((5,)).shape
    torch.Size([5, 3])
    """

    arg_constraints = {"mean": constraints.real_vector, "stddev": constraints.positive}  # noqa: RUF012
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        first: Distribution,
        steps: Sequence[Step],
        sizes: Sequence[int],
        *,
        backward: bool = False,
        memory: bool = False,
    ) -> None:
        self.first, self.steps, self.sizes = first, tuple(steps), tuple(sizes)
        self.backward, self.memory = backward, memory
        super().__init__(first.batch_shape, torch.Size([sum(sizes)]), validate_args=False)

    def parts(self, value: Tensor) -> list[Tensor]:
        """The vectors in a value, in the order of drawing."""
        if self.backward:
            return list(value.split(self.sizes[::-1], -1))[::-1]
        return list(value.split(self.sizes, -1))

    @property
    def mean(self) -> Tensor:
        """Each vector's mean given the mean of the one before it: the mean itself where that is linear in the latter.

        The mean of a chain has no closed form in general; like any plug-in estimate, this one draws nothing.
        """
        means = [self.first.mean]
        for step in self.steps:
            means.append(step(self._before(means)).mean)
        return self._joined(means)

    @property
    def variance(self) -> Tensor:
        """The variances by the delta method: each step's own, and those before it through its slope at the mean.

        They are exact where the steps are linear with a constant variance, and the first vector's values independent.
        """
        means, found = [self.first.mean], [self.first.variance]
        tangents = [[each] for each in torch.diag_embed(self.first.stddev).unbind(-2)]  # of each source, by vector
        for step in self.steps:
            mean = self._before(means)
            here = step(mean)
            for each in tangents:
                each.append(_slope(step, mean, self._before(each)))
            still = [torch.zeros_like(part) for part in means]
            spread = here.variance.expand_as(here.mean).sqrt()
            tangents += [[*still, each] for each in torch.diag_embed(spread).unbind(-2)]
            means.append(here.mean)
            found.append(torch.stack([each[-1] for each in tangents]).square().sum(0))
        return self._joined(found)

    def rsample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        return self.rsample_and_log_prob(sample_shape)[0]

    def rsample_and_log_prob(
        self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """A value and its log-density, with each step taken once."""
        drawn = [self.first.rsample(torch.Size(sample_shape))]
        total = self.first.log_prob(drawn[0])
        for step in self.steps:
            here = step(self._before(drawn))
            drawn.append(here.rsample())
            total = total + here.log_prob(drawn[-1])
        return self._joined(drawn), total

    def _before(self, parts: list[Tensor]) -> Tensor:
        """What a step is given of the vectors before it."""
        return torch.cat(parts, -1) if self.memory else parts[-1]

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """The inverse of ``parts``."""
        return torch.cat(parts[::-1] if self.backward else parts, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        parts = self.parts(value)
        total = self.first.log_prob(parts[0])
        for place, step in enumerate(self.steps, start=1):
            total = total + step(self._before(parts[:place])).log_prob(parts[place])
        return total


def _slope(step: Step, mean: Tensor, tangent: Tensor) -> Tensor:
    """How the mean of a step changes as its argument moves from ``mean`` along ``tangent``."""
    found: Tensor = torch.autograd.functional.jvp(lambda z: step(z).mean, mean.detach(), tangent.detach())[1]
    return found
