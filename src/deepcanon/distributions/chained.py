"""Chained latent variables: each is drawn given the one before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

Step = Callable[[Tensor], Distribution]


class Chained(Distribution):
    r"""A Markov chain of vectors: the first has the distribution ``first``, each further one that of its step.

    .. math:: p(z_1, \dots, z_L) = p(z_1) \prod_{l=2}^L p(z_l \mid z_{l-1})

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
        self, first: Distribution, steps: Sequence[Step], sizes: Sequence[int], *, backward: bool = False
    ) -> None:
        self.first, self.steps, self.sizes, self.backward = first, tuple(steps), tuple(sizes), backward
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
            means.append(step(means[-1]).mean)
        return self._joined(means)

    @property
    def variance(self) -> Tensor:
        """The variances by the delta method: each step's own, and those before it through its slope at the mean.

        They are exact where the steps are linear with a constant variance, and the first vector's values independent.
        """
        mean, variance = self.first.mean, self.first.variance
        tangents, found = list(torch.diag_embed(variance.sqrt()).unbind(-2)), [variance]
        for step in self.steps:
            tangents = [_slope(step, mean, each) for each in tangents]
            here = step(mean)
            mean = here.mean
            tangents += torch.diag_embed(here.variance.expand_as(mean).sqrt()).unbind(-2)
            found.append(torch.stack(tangents).square().sum(0))
        return self._joined(found)

    def rsample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        drawn = [self.first.rsample(torch.Size(sample_shape))]
        for step in self.steps:
            drawn.append(step(drawn[-1]).rsample())
        return self._joined(drawn)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """The inverse of ``parts``."""
        return torch.cat(parts[::-1] if self.backward else parts, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        parts = self.parts(value)
        total = self.first.log_prob(parts[0])
        for step, before, part in zip(self.steps, parts, parts[1:], strict=False):
            total = total + step(before).log_prob(part)
        return total


def _slope(step: Step, mean: Tensor, tangent: Tensor) -> Tensor:
    """How the mean of a step changes as its argument moves from ``mean`` along ``tangent``."""
    found: Tensor = torch.autograd.functional.jvp(lambda z: step(z).mean, mean.detach(), tangent.detach())[1]
    return found
