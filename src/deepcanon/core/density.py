"""Densities and samplers: the base classes that own ``log_prob``, ``sample`` and ``score`` with their checks."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from deepcanon.core.checks import at_least, check_support, one_of
from deepcanon.core.conditional import Context, bound, given_batch, given_rows
from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.memory import enough_for
from deepcanon.core.model import Evaluated, LikelihoodKind, Model, Support
from deepcanon.core.turn import B, Terms

REDRAWN = 64
"""So many examples are drawn a second time, to tell how far the draws scatter."""


class Sampler(Model[B]):
    """A model to draw examples from: a leaf writes ``_sample``, and reads a context by ``_context(n)``."""

    @abstractmethod
    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        """Examples drawn from the model, (n, ...)."""

    @torch.no_grad()
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        """Examples drawn from the model, (n, ...); ``context`` conditions a conditional model."""
        at_least(0, n=n)
        with enough_for(f"{n:,} samples of {self.name()}", "draw fewer at a time"):
            drawn: Tensor = bound(self, context, n)._sample(n, generator)
        return drawn


class NamedSamplers(Sampler[B]):
    """A model that can be sampled in several ways, by their names; a leaf writes ``_sample_by``."""

    samplers: ClassVar[tuple[str, ...]]
    """The names of the samplers, the default first."""

    @abstractmethod
    def _sample_by(self, n: int, sampler: str, steps: int | None, generator: Generator | None) -> Tensor:
        """Examples drawn by one of the samplers, (n, ...), in so many steps or, without, in as many as it takes."""

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return self._sample_by(n, self.samplers[0], None, generator)

    @torch.no_grad()
    def sample(
        self,
        n: int,
        *,
        context: Context | None = None,
        sampler: str | None = None,
        steps: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Examples drawn from the model, (n, ...); ``context`` conditions a conditional model.

        ``sampler`` is one of ``samplers``, by default the first, and ``steps`` is how many steps it takes.
        """
        if sampler is None and steps is None:
            return super().sample(n, context=context, generator=generator)
        at_least(0, n=n)
        name = self.samplers[0] if sampler is None else sampler
        one_of(self.samplers, sampler=name)
        if steps is not None:
            at_least(1, steps=steps)
        with enough_for(f"{n:,} samples of {self.name()}", "draw fewer at a time"):
            drawn: Tensor = bound(self, context, n)._sample_by(n, name, steps, generator)
        return drawn


class Density(Sampler[B]):
    """A distribution over examples with a likelihood that is exact, a bound, an estimate or unnormalized.

    A leaf writes ``_log_prob`` where its likelihood is exact or unnormalized, ``_estimate`` where it is drawn (both
    where its settings decide), and ``_sample``. The public methods check values, context and
    options, and bind the context, which a conditional leaf reads by ``_context(n)``.
    """

    likelihood_kind: LikelihoodKind = "exact"
    likelihoods: ClassVar[tuple[str, ...]] = ()
    """The names of the likelihoods that the model can give, the default first, where there are several."""
    likelihood: str = ""
    """The name of the likelihood that ``log_prob`` gives, where there are several."""
    measured_samples: int | None = None
    """By how many samples for each example a metric estimates the likelihood; without, the loss is the likelihood."""
    importance_weighted: bool = False
    """Whether the samples of a lower bound are weighed by importance, so that it tightens with their number."""
    costly_likelihood: bool = False
    """Whether the likelihood takes so long that it is not measured on the way of a training, unless it is watched."""
    least_draws: int = 1
    """By how many draws a mean over few examples is estimated at least, each of them drawn again and again."""
    discrete: tuple[int, ...] = ()
    """Where the support is mixed, the positions of the features that are categories; the others are real."""

    def _log_prob(self, x: Tensor) -> Tensor:
        """The log-likelihood of each example, exact or unnormalized, (B,)."""
        raise NotImplementedError

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        """A lower bound or an estimate of the log-likelihood of each example, by so many samples, (B,)."""
        raise NotImplementedError

    def with_likelihood(self, name: str) -> Self:
        """The same model, with the same weights, whose ``log_prob`` is that of ``likelihoods`` which has this name."""
        if not self.likelihoods:
            raise UsageError(f"{self.name()} has one likelihood, which is {self.likelihood_kind}; leave the name out")
        one_of(self.likelihoods, likelihood=name)
        view = copy.copy(self)
        view.likelihood = name
        view.likelihood_kind = view._kind_of_likelihood()
        return view

    def _kind_of_likelihood(self) -> LikelihoodKind:
        """Of what kind the likelihood of the name ``likelihood`` is."""
        return self.likelihood_kind

    def check_values(self, x: Tensor) -> None:
        """Refuse examples that the model has no likelihood of."""
        check_support(x, self.support, self.name(), self.discrete)

    def prepare(self, data: Iterable[B]) -> None:
        """Refuse data that the model has no likelihood of."""
        for _ in self.checked(data):
            pass

    def checked(self, data: Iterable[B]) -> Iterator[B]:
        """The batches one by one, each with values that the model has a likelihood of."""
        for batch in data:
            self.check_values(batch.x)
            yield batch

    def has_likelihood_of(self, x: Tensor) -> bool:
        """Whether the model has a likelihood of these values; it may be trained on others."""
        try:
            self.check_values(x)
        except DataError:
            return False
        return True

    def log_prob(
        self,
        x: Tensor,
        *,
        context: Context | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The log-likelihood of each example in nats, (B,), of the kind that ``likelihood_kind`` says.

        ``samples`` sharpen a bound or an estimate, and its draws come from ``generator``; where nothing is drawn, both
        are refused. ``context`` conditions a conditional model.
        """
        model = bound(self, context, len(x))
        model.check_values(x)
        if not self._is_drawn():
            self._draws_nothing(samples, generator)
            exact: Tensor = model._log_prob(x)
            return exact
        if samples is not None:
            at_least(1, samples=samples)
        drawn: Tensor = model._estimate(x, samples, generator)
        return drawn

    def loss(self, batch: B) -> Terms:
        return {"nll": -given_batch(self, batch).log_prob(batch.x).mean()}

    def evaluated(self, batch: B) -> Evaluated:
        terms = self.loss(batch)
        return Evaluated(terms, self._metrics_of(terms, batch))

    def metrics(self, batch: B) -> Terms:
        found = self._metrics_of(self.loss(batch), batch)
        drawn = "nll" in found and self._is_drawn()
        return {**found, "nll_error": self.error_of_draws(batch, self.measured_samples)} if drawn else found

    def _metrics_of(self, terms: Terms, batch: B) -> Terms:
        """The negative log-likelihood: the loss, where it is one, or an estimate by ``measured_samples``."""
        if not self.has_likelihood_of(batch.x):
            return {}
        if self.measured_samples is None:
            return {"nll": torch.stack(list(terms.values())).sum()}
        draws = {"samples": self.measured_samples} if self._is_drawn() else {}
        return {"nll": -given_batch(self, batch).log_prob(batch.x, **draws).mean()}

    @torch.no_grad()
    def error_of_draws(self, batch: B, samples: int | None = None) -> Tensor:
        """The Monte-Carlo error of the mean ``log_prob`` of a batch, 0-d: its standard deviation over the draws.

        Some examples from all over the batch are drawn twice more; half of the mean squared difference is the variance
        of one.
        """
        if not self._is_drawn() or len(batch) == 0:
            return batch.x.new_zeros(())
        count = min(REDRAWN, len(batch))
        few = torch.arange(count, device=batch.device) * len(batch) // count
        both = batch.select(few.repeat(2))
        once, again = given_rows(self, batch, few.repeat(2)).log_prob(both.x, samples=samples).chunk(2)
        error: Tensor = ((once - again).square().mean() / (2 * len(batch))).sqrt()
        return error

    def _draws_nothing(self, samples: int | None, generator: Generator | None) -> None:
        """Refuse what only a likelihood that is drawn can use."""
        for name, value in (("samples", samples), ("generator", generator)):
            if value is not None:
                raise UsageError(
                    f"the log_prob of {self.name()} is {self.likelihood_kind} and draws nothing; leave out {name}"
                )

    def _is_drawn(self) -> bool:
        return self.likelihood_kind in ("lower bound", "estimate")


def log_likelihood(model: Any, x: Tensor, *, samples: int | None = None, generator: Generator | None = None) -> Tensor:
    """The ``log_prob`` of any model that has one; ``samples`` and ``generator`` reach only one that draws."""
    drawn = getattr(model, "likelihood_kind", "exact") in ("lower bound", "estimate")
    found: Tensor = model.log_prob(x, samples=samples, generator=generator) if drawn else model.log_prob(x)
    return found


class RealDensity(Density[B]):
    """A density of real values, with the gradient of its logarithm, the ``score``."""

    @property
    def support(self) -> Support:
        return "real"

    def score(self, x: Tensor, *, context: Context | None = None) -> Tensor:
        """The gradient of the log-density at each example, in the shape of ``x``."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.log_prob(x, context=context).sum(), x)
        return gradient
