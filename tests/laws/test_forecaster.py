"""Each law of forecasters is shown a model that breaks it; a healthy one keeps them all."""

from dataclasses import replace
from typing import Any, Self

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution

from deepcanon.core import Batch, Context, Series, Terms, UsageError
from deepcanon.laws import check, report
from deepcanon.laws import forecaster as laws
from deepcanon.laws.outcome import Law
from deepcanon.models.recurrent._forecaster import State, _mask
from deepcanon.models.recurrent.deepar import DeepAR


class Healthy(DeepAR):
    @classmethod
    def example(cls) -> tuple[Self, Series]:
        _, batch = DeepAR.example()
        torch.manual_seed(0)
        known = torch.randn(12, 14, 2)
        return cls(features=1, covariates=2, statics=3, units=5, layers=1), replace(
            batch, covariates=known, statics=torch.arange(12).view(-1, 1) % 3
        )


class ReadsPadding(Healthy):
    """The padding counts as given steps in the scale."""

    def step_log_probs(self, x: Series | Tensor, *, context: Context | None = None) -> Tensor:
        assert isinstance(x, Series)
        series = x
        return super().step_log_probs(series) + 1e-6 * series.x.sum((1, 2)).unsqueeze(1)


class CountsPadding(Healthy):
    """Zeros of the padding are predicted, too."""

    def step_log_probs(self, x: Series | Tensor, *, context: Context | None = None) -> Tensor:
        assert isinstance(x, Series)
        series = x
        zeros = series.x.masked_fill(~_mask(series.x, series.lengths).unsqueeze(2), 0)
        known = None if series.covariates is None else series.covariates.nan_to_num()
        return super().step_log_probs(
            replace(series, x=zeros, lengths=torch.full_like(series.lengths, series.x.shape[1]), covariates=known)
        )


class Mixes(Healthy):
    """The scale is that of the whole batch."""

    def read(self, values: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        return super().read(values - values.mean(0), state)


class PerSeries(Healthy):
    """The loss is a mean over series."""

    def loss(self, batch: Series) -> Terms:
        return {"nll": -self.log_prob(batch).mean()}


class PerSeriesThroughout(PerSeries):
    """The loss is the mean over series of means over steps."""

    def loss(self, batch: Series) -> Terms:
        return {"nll": -(self.log_prob(batch) / (batch.lengths - batch.origins)).mean()}


class OneNoise(Healthy):
    """All paths are the same."""

    def _paths(self, past: Series, steps: int, samples: int, future: Tensor | None) -> Tensor:
        return super()._paths(past, steps, 1, future).expand(samples, -1, -1, -1)


class Global(Healthy):
    """The generator is not used."""

    def forecast(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        return super().forecast(*args, **kwargs)


class Unscaled(Healthy):
    """The likelihood is that of the scaled values: the logarithm of the scale is missing."""

    def step_log_probs(self, x: Series | Tensor, *, context: Context | None = None) -> Tensor:
        assert isinstance(x, Series)
        series = x
        found = super().step_log_probs(series)
        scale = 1 + series.x[:, :1, 0].abs()
        return found + torch.where(found != 0, scale.log(), 0)


class ForgetsItsDraws(Healthy):
    """What was drawn is not read: every step is drawn as if the last known value had been repeated."""

    def _paths(self, past: Series, steps: int, samples: int, future: Tensor | None) -> Tensor:
        firsts = [
            super(ForgetsItsDraws, self)._paths(past, 1, samples, None if future is None else future[:, step:])
            for step in range(steps)
        ]
        return torch.cat(firsts, 2)


class LooksAhead(Healthy):
    """A step knows the value after it, though the model is declared causal."""

    def step_log_probs(self, x: Series | Tensor, *, context: Context | None = None) -> Tensor:
        assert isinstance(x, Series)
        found = super().step_log_probs(x)
        return torch.where(found != 0, found + 1e-6 * x.x.roll(-1, 1).squeeze(2), found)


class LosesAStep(Healthy):
    """The sum of the steps is not the likelihood."""

    def log_prob(self, x: Series | Tensor, **options: Any) -> Tensor:
        return self.step_log_probs(x, **options)[:, :-1].sum(1)


class TakesAContext(Healthy):
    """A forecast takes covariates as a context, which the likelihood refuses: two meanings of one word."""

    def forecast(self, *args: Any, context: Context | None = None, **kwargs: Any) -> Tensor:
        return super().forecast(*args, **kwargs)


class ReadsNoFuture(Healthy):
    """Forecasts leave out the covariates of the steps to come."""

    def _future(self, series: Series, steps: int) -> Tensor | None:
        return torch.zeros(len(series), steps, self.covariates, dtype=series.x.dtype)


class Differenced(Healthy):
    @classmethod
    def example(cls) -> tuple[Self, Series]:
        _, batch = Healthy.example()
        return cls(features=1, covariates=2, statics=3, units=5, layers=1, lags=(1, 3), differenced=True), batch


class OnePlusTheChange(Differenced):
    """The scale has a unit of its own: 1 is added to the mean absolute change."""

    def scale_of(self, series: Series) -> Tensor:
        return 1 + super().scale_of(series)


class PredictsWhatIsMissing(Healthy):
    """A missing value is taken for a zero, and predicted."""

    def step_log_probs(self, x: Series | Tensor, *, context: Context | None = None) -> Tensor:
        assert isinstance(x, Series)
        return super().step_log_probs(replace(x, x=x.x.nan_to_num(0)))


class PassesNaNOn(Healthy):
    """A missing value is read, as NaN."""

    def distribution(self, series: Series, start: int = 0) -> Distribution:
        scale = self.scale_of(replace(series, x=series.x.nan_to_num(0)))
        return self.likelihood.distribution(self(*series.inputs)[:, start:], scale.unsqueeze(1))


@pytest.mark.slow
def test_a_healthy_forecaster_keeps_all_laws() -> None:
    found = check(Healthy, "forecaster")
    assert len(found) == len(laws.LAWS) - 1  # it has the scale of the paper, which is not that of the series alone
    assert all(outcome.holds for outcome in found), report(found)
    found = check(Differenced, "forecaster")
    assert len(found) == len(laws.LAWS)
    assert all(outcome.holds for outcome in found), report(found)


@pytest.mark.parametrize(
    ("law", "broken"),
    [
        (laws.padding_is_never_read, ReadsPadding),
        (laws.more_padding_changes_nothing, CountsPadding),
        (laws.series_do_not_mix, Mixes),
        (laws.loss_is_nll_per_step, PerSeries),
        (laws.parts_of_a_batch_add_up, PerSeriesThroughout),
        (laws.steps_add_up_to_the_series, LooksAhead),
        (laws.steps_add_up_to_the_series, LosesAStep),
        (laws.covariates_are_part_of_the_series, TakesAContext),
        (laws.covariates_are_part_of_the_series, ReadsNoFuture),
        (laws.forecasts_have_their_shape_and_generator, OneNoise),
        (laws.forecasts_have_their_shape_and_generator, Global),
        (laws.probability_of_a_step_is_one, Unscaled),
        (laws.forecasts_follow_the_likelihood, ForgetsItsDraws),
        (laws.missing_last_step_is_no_step, PredictsWhatIsMissing),
        (laws.missing_last_step_is_no_step, PassesNaNOn),
        (laws.scale_of_a_series_is_its_own, OnePlusTheChange),
    ],
)
def test_a_law_catches_the_fault_it_is_meant_for(law: Law, broken: type[Healthy]) -> None:
    outcome = law(*broken.example())
    assert outcome is not None
    assert not outcome.holds, outcome


class RandomWalk(nn.Module):
    """Random walks whose steps are normal with this deviation, whatever that of the data is."""

    def __init__(self, deviation: float, bias: float = 0.0) -> None:
        super().__init__()
        self.deviation, self.bias = deviation, bias

    def forecast(self, past: Series, steps: int, *, samples: int, generator: Generator) -> Tensor:
        noise = torch.randn(samples, len(past), steps, 1, generator=generator, dtype=past.x.dtype)
        last = past.x[torch.arange(len(past)), past.lengths - 1].unsqueeze(1)
        return last + (self.bias + self.deviation * noise).cumsum(2)


@pytest.mark.slow
def test_quantiles_of_the_law_itself_are_calibrated_and_others_are_not() -> None:
    x = torch.randn(2000, 9, 1, generator=Generator().manual_seed(0)).cumsum(1)
    walks = Series(x, torch.full((2000,), 9), torch.full((2000,), 4))
    models = [RandomWalk(1.0), RandomWalk(0.7), RandomWalk(1.5), RandomWalk(1.0, bias=0.3)]
    found = [laws.quantiles_are_calibrated(model, walks) for model in models]
    assert [outcome is not None and outcome.holds for outcome in found] == [True, False, False, False]


def test_other_examples_than_series_are_refused() -> None:
    with pytest.raises(UsageError, match="batch of Series, got Batch"):
        laws.check_forecaster(Healthy.example()[0], Batch(torch.zeros(2, 2)))
