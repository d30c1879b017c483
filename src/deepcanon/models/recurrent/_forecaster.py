"""The engine of forecasters: the likelihood of each step of a time series given those before it, and sample paths."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution, Independent

from deepcanon.core import (
    Context,
    DataError,
    LikelihoodKind,
    Model,
    Series,
    Support,
    Terms,
    UsageError,
    drawing_from,
    eval_mode,
)
from deepcanon.core.checks import at_least
from deepcanon.core.memory import need
from deepcanon.core.series import check_lengths, filled, steps_from
from deepcanon.distributions.scaled import Link, ScaledByValues, ScaledNegativeBinomial, scaled_head
from deepcanon.losses.crps import crps, quantile_loss

State = tuple[Tensor, ...]
"""What the network remembers of the steps it has read: tensors with the series along their second axis."""

PATHS = 49
"""The number of sample paths that the metrics are measured on; the truth is as likely in each of the 50 gaps."""

LEAST_CHANGE = 1e-4
"""The part of its mean size that a differenced series is taken to change by at least, so that none has no scale."""

LEVELS = tuple(level / 10 for level in range(1, 10))
"""The levels of the quantiles whose loss is measured; the interval from the first to the last covers 80 %."""


class Forecaster(Model[Series]):
    r"""An autoregressive model of time series: the distribution of each step depends on all steps before it.

    A leaf ``reads`` steps; here are what it reads, the likelihood, and forecasts. Each series has a scale, by which its
    values are divided on their way in and its distributions multiplied on their way out, and which is computed from
    the given steps alone:

    .. math:: \nu = 1 + \frac{1}{t_0} \sum_{t=1}^{t_0} |z_t|, \qquad
              \log p(z_{t_0 + 1} \dots z_T \mid z_1 \dots z_{t_0}) =
              \sum_{t > t_0} \log p(z_t \mid z_{<t}, \nu) \qquad (1)

    So (1) is an exact density in the units of the data. The loss is minus its mean over all predicted steps.

    If the series are ``differenced``, the distribution of a step is around the value before it, all values are read
    less that value, and the scale is the mean absolute change. A series that is multiplied by a number then has the
    forecasts multiplied by it (``scale_equivariant``):

    .. math:: \nu = \frac{1}{t_0 - 1} \sum_{t=2}^{t_0} |z_t - z_{t-1}| + \epsilon \frac{1}{t_0} \sum_{t=1}^{t_0} |z_t|,
              \qquad z_t \sim z_{t-1} + \nu\, \ell(\theta_t) \qquad (2)

    Counts with a log link are read by their logarithms, as their mean is written, so that effects multiply:

    .. math:: \log\frac{1 + z_{t-1}}{\nu} \quad \text{in place of} \quad \frac{z_{t-1}}{\nu}, \qquad
              E z_t = \nu\, e^{\theta_t} \qquad (3)

    A value that is missing (NaN) is not predicted, and the last one before it is read in its place.
    """

    likelihood_kind: LikelihoodKind = "exact"
    causal = True

    def __init__(
        self,
        features: int,
        covariates: int,
        statics: int,
        embedding: int,
        head: str,
        lags: tuple[int, ...] = (1,),
        differenced: bool = False,
        link: Link | None = None,
    ) -> None:
        super().__init__()
        at_least(1, features=features, embedding=embedding, lags=min(lags, default=0))
        at_least(0, covariates=covariates, statics=statics)
        self.features, self.covariates, self.statics = features, covariates, statics
        self.likelihood = scaled_head("student_t" if differenced and head == "auto" else head, link)
        if differenced and self.likelihood.counts:
            raise UsageError("differences of counts are not counts; take head=gaussian or student_t with differenced")
        self.differenced = differenced
        # Less the value before, that value itself says nothing; the one before it says the last change.
        self.lags = tuple(sorted({max(lag, 2 if differenced else 1) for lag in lags}))
        self.embedding = nn.Embedding(statics, embedding) if statics else None
        self.width = (len(self.lags) + 1) * features + covariates + (embedding if statics else 0)
        """The number of values that are read at each step."""

    @property
    def scale_equivariant(self) -> bool:
        """Whether a series that is multiplied by a positive number has the forecasts multiplied by it."""
        return self.differenced

    @abstractmethod
    def read(self, values: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The parameters of each step's distribution, (B, t, ...), from values (B, t, width), and the state after."""

    @abstractmethod
    def state_after(self, values: Tensor, lengths: Tensor) -> State:
        """The state after the first ``lengths[i]`` steps of each row of the values."""

    @property
    def support(self) -> Support:
        return "any"

    @torch.no_grad()
    def prepare(self, data: Iterable[Series]) -> None:
        """Refuse series that the model is not built for, and values that its likelihood does not have, or choose it."""
        there = False
        for batch in data:
            self._check(batch)
            inside = _mask(batch.x, batch.lengths).unsqueeze(2)
            if batch.covariates is not None and not bool(
                batch.covariates[:, : batch.x.shape[1]].masked_fill(~inside, 0).isfinite().all()
            ):
                raise DataError("the covariates have NaN or infinite values; fill in what is missing first")
            there |= bool(batch.predicted.any())
            values = filled(batch.x.masked_fill(~inside, 0))
            if not bool(values.isfinite().all()):
                raise DataError("the series have infinite values; write NaN where a value is missing")
            if self.likelihood.counts and not bool(((values >= 0) & (values == values.round())).all()):
                raise DataError(
                    f"the negative binomial likelihood is one of counts 0, 1, 2 ...; the series have other values "
                    f"(from {float(values.min()):.3g} to {float(values.max()):.3g}): take head=gaussian or student_t, "
                    "or counts in a file as they are, by FILE.csv:raw"
                )
        if not there:
            raise DataError("the series have no value to learn from: all after the forecast origins are missing")
        if isinstance(self.likelihood, ScaledByValues):
            self.likelihood.choose(
                batch.x.masked_fill(~_mask(batch.x, batch.lengths).unsqueeze(2), torch.nan) for batch in data
            )

    def loss(self, batch: Series) -> Terms:
        return {"nll": -self.step_log_probs(batch).sum() / max(1, batch.weight)}

    def step_log_probs(self, x: Series | Tensor, *, context: Context | None = None) -> Tensor:
        """The log-likelihood of each step after the forecast origin given all before it, (B, T); elsewhere 0."""
        self._no_context(context)
        series = x if isinstance(x, Series) else _whole(x, origin=1)
        self._check(series)
        start = 0 if series.x.is_meta else int(series.origins.min())  # before it, nothing is predicted
        predicted = series.predicted[:, start:]
        known = series.x[:, start:].masked_fill(~predicted, 0)
        if self.likelihood.counts:  # whose factorials are too large for single precision
            known = known.double()
        each = self.distribution(series, start)
        assert isinstance(each, Independent)
        log_p = each.base_dist.log_prob(known).masked_fill(~predicted, 0).sum(2)
        return torch.nn.functional.pad(log_p.to(series.x.dtype), (start, 0))

    def log_prob(
        self,
        x: Series | Tensor,
        *,
        context: Context | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The exact log-likelihood (1) of each series after its forecast origin, (B,).

        A tensor, (B, T, features), holds series without covariates and ids; all its steps but the first are predicted.
        """
        for name, value in (("samples", samples), ("generator", generator)):
            if value is not None:
                raise UsageError(f"the log_prob of {self.name()} is exact and draws nothing; leave out {name}")
        return self.step_log_probs(x, context=context).sum(1)

    def distribution(self, series: Series, start: int = 0) -> Distribution:
        """The distribution of each step from ``start`` on given those before it, in the units of the data, (B, T)."""
        series = replace(series, x=filled(series.x))
        before, outputs = _shifted(series.x, 1)[:, start:], self(*series.inputs)[:, start:]
        return self._likelihood(outputs, self.scale_of(series).unsqueeze(1), before)

    def _likelihood(self, outputs: Tensor, scale: Tensor, before: Tensor) -> Distribution:
        """The distribution of a step with these parameters, after this value."""
        if not self.differenced:
            return self.likelihood.distribution(outputs, scale)
        assert not isinstance(self.likelihood, ScaledNegativeBinomial)
        return self.likelihood.distribution(outputs, scale, before)  # eq. (2)

    def forward(
        self,
        x: Tensor,
        lengths: Tensor,
        origins: Tensor,
        covariates: Tensor | None = None,
        statics: Tensor | None = None,
    ) -> Tensor:
        """The parameters of the distribution of each step in units of the scale, (B, T, parameters)."""
        return self.read(self._values(Series(x, lengths, origins, covariates, statics)))[0]

    def metrics(self, batch: Series) -> Terms:
        """Of forecasts from the origin on: CRPS, quantile loss, and how often the 80 % interval covers the truth."""
        steps = int((batch.lengths - batch.origins).max())
        if not bool(batch.predicted.any()):
            return {}
        counted = _mask(batch.x, batch.lengths).unsqueeze(2)
        truth = steps_from(batch.x.masked_fill(~batch.predicted, 0), batch.origins, steps)
        future = None
        if batch.covariates is not None:
            known = batch.covariates[:, : batch.x.shape[1]].masked_fill(~counted, 0)
            future = steps_from(known, batch.origins, steps)
        paths = self._paths(batch.past, steps, PATHS, future)
        ahead = _mask(truth, batch.lengths - batch.origins).unsqueeze(2)
        inside = ahead & steps_from(batch.predicted, batch.origins, steps)

        def mean(values: Tensor) -> Tensor:
            return values[inside].mean()

        paths = paths.sort(0).values
        quantiles = [paths[round(level * (PATHS + 1)) - 1] for level in LEVELS]
        losses = [quantile_loss(quantile, truth, level) for quantile, level in zip(quantiles, LEVELS, strict=True)]
        return {
            "crps": mean(crps(paths, truth)),
            "quantile_loss": mean(torch.stack(losses).mean(0)),
            "coverage": mean(((quantiles[0] <= truth) & (truth <= quantiles[-1])).to(truth.dtype)),
        }

    def forecast(
        self,
        past: Series | Tensor,
        steps: int,
        *,
        samples: int = 100,
        context: Context | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Sample paths of the ``steps`` after each series' end, (samples, B, steps, features), all of it given.

        The covariates of these steps are those that the past has beyond its end.
        """
        self._no_context(context)
        at_least(1, steps=steps, samples=samples)
        series = past if isinstance(past, Series) else _whole(past, origin=past.shape[1])
        self._check(series)
        future = self._future(series, steps)
        with drawing_from(generator):
            return self._paths(series, steps, samples, future)

    @torch.no_grad()
    def _paths(self, past: Series, steps: int, samples: int, future: Tensor | None) -> Tensor:
        """Ancestral sampling: each step is drawn given those before it, and read on the way to the next."""
        what = f"{samples:,} paths of {steps:,} steps for each of {len(past):,} series"
        need(4 * samples * len(past) * (steps * self.features + 1), what, "draw fewer paths or steps at a time")
        rows = torch.arange(len(past), device=past.device).repeat(samples)
        past = Series(filled(past.x), past.lengths, past.lengths, past.covariates, past.statics)
        scale = self.scale_of(past)
        drawn = past.x.new_empty(len(rows), steps, self.features)
        with eval_mode(self):
            state = tuple(part[:, rows] for part in self.state_after(self._values(past), past.lengths))
            reach = self.lags[-1]
            recent = steps_from(_shifted(past.x, reach, longer=True), past.lengths, reach)[rows]
            count = past.lengths[rows].unsqueeze(1)
            fixed = self._fixed(past, scale)[rows]
            scale = scale[rows]
            for step in range(steps):
                known = [] if future is None else [future[:, step][rows]]
                lagged = self._lagged([recent[:, -lag] for lag in (1, *self.lags)], scale, count + step)
                values = torch.cat([*lagged, *known, fixed], 1).unsqueeze(1)
                outputs, state = self.read(values, state)
                drawn[:, step] = self._likelihood(outputs.squeeze(1), scale, recent[:, -1]).sample()
                recent = torch.cat([recent[:, 1:], drawn[:, step : step + 1]], 1)
        return drawn.view(samples, len(past), steps, self.features)

    def _values(self, series: Series) -> Tensor:
        """What is read at each step: values before it, zero at first, its covariates, the scale, the embedding."""
        scale, inside = self.scale_of(series), _mask(series.x, series.lengths).unsqueeze(2)
        x, steps = series.x.masked_fill(~inside, 0), series.x.shape[1]
        count = torch.arange(steps, device=x.device).view(1, -1, 1)
        parts = self._lagged([_shifted(x, lag) for lag in (1, *self.lags)], scale.unsqueeze(1), count)
        if series.covariates is not None:
            parts.append(series.covariates[:, :steps].masked_fill(~inside, 0))
        fixed = self._fixed(series, scale)
        return torch.cat([*parts, fixed.unsqueeze(1).expand(-1, steps, -1)], 2)

    def _lagged(self, values: list[Tensor], scale: Tensor, count: Tensor) -> list[Tensor]:
        """The values at the lags as they are read after so many steps; the first of them is the value before."""
        before, *lagged = values
        if self.likelihood.link == "log":
            return [((1 + value) / scale).log() for value in lagged]  # eq. (3)
        if not self.differenced:
            return [value / scale for value in lagged]
        pairs = zip(lagged, self.lags, strict=True)
        return [((value - before) / scale).masked_fill(count < lag, 0) for value, lag in pairs]

    def _fixed(self, series: Series, scale: Tensor) -> Tensor:
        """What is the same at every step: the logarithm of the scale, and the sum of the embeddings of the ids.

        Differenced series have the logarithm of their mean size in units of the scale instead, which has no unit.
        """
        size = (1 + _size(series) / scale).log() if self.differenced else scale.log()
        if self.embedding is None or series.statics is None:
            return size
        return torch.cat([size, self.embedding(series.statics).sum(1)], 1)

    def scale_of(self, series: Series) -> Tensor:
        """The scale of each series by its given steps, (B, features), of which none is missing."""
        size = _size(series)
        if not self.differenced:
            return 1 + size  # eq. (1)
        later = _mask(series.x, series.origins)[:, 1:].unsqueeze(2)
        changes = series.x.diff(dim=1).masked_fill(~later, 0).abs().sum(1)
        scale = changes / (series.origins.unsqueeze(1) - 1).clamp_min(1) + LEAST_CHANGE * size
        return torch.where(scale > 0, scale, 1.0)

    def _future(self, series: Series, steps: int) -> Tensor | None:
        """The covariates of the steps to come, (B, steps, covariates)."""
        if series.covariates is None:
            return None
        last, known = int(series.lengths.max()) + steps, series.covariates.shape[1]
        if last > known:
            raise DataError(
                f"the model needs the covariates of the {steps} steps to come, which are part of the series: give it "
                f"series with covariates of {last} steps or more (got {known})"
            )
        future = steps_from(series.covariates, series.lengths, steps)
        if not bool(future.isfinite().all()):
            raise DataError("the covariates of the steps to come have NaN or infinite values")
        return future

    def _no_context(self, context: Context | None) -> None:
        """Refuse a context: what is known besides the values is part of the series, of past and future alike."""
        if context is not None:
            raise UsageError(
                f"{self.name()} is not a conditional model and takes no context; covariates are part of the series, "
                "and those of steps to come reach beyond its end"
            )

    def _check(self, series: Series) -> None:
        """Refuse series of another size, or without what the model was built for."""
        there = 0 if series.covariates is None else series.covariates.shape[2]
        for name, wanted, got in (
            ("features", self.features, series.x.shape[2]),
            ("covariates", self.covariates, there),
        ):
            if wanted != got:
                raise DataError(f"the model is built for series of {wanted} {name}, got {got}")
        if (series.statics is None) != (self.statics == 0):
            wants = f"needs ids from 0 to {self.statics - 1}" if self.statics else "is built without ids"
            raise DataError(f"the model {wants}, and the series come {'with' if self.statics == 0 else 'without'} them")
        check_lengths(series)
        if series.statics is None or series.x.is_meta:
            return
        least, most = int(series.statics.min()), int(series.statics.max())
        if least < 0 or most >= self.statics:
            raise DataError(f"the model knows the ids 0 to {self.statics - 1}, got some from {least} to {most}")


def _size(series: Series) -> Tensor:
    """The mean absolute value of the given steps of each series, (B, features)."""
    given = series.x.masked_fill(~_mask(series.x, series.origins).unsqueeze(2), 0)
    return given.abs().sum(1) / series.origins.unsqueeze(1)


def _shifted(x: Tensor, lag: int, longer: bool = False) -> Tensor:
    """The values so many steps before, zero before the first, (B, T, features), or ``longer`` by the lag."""
    later = torch.nn.functional.pad(x, (0, 0, lag, 0))
    return later if longer else later[:, : x.shape[1]]


def _mask(x: Tensor, ends: Tensor) -> Tensor:
    """True at the steps of each row before its end, (B, T)."""
    return torch.arange(x.shape[1], device=x.device) < ends.unsqueeze(1)


def _whole(x: Tensor, origin: int) -> Series:
    """A tensor of series without padding."""
    full = torch.full((len(x),), x.shape[1], device=x.device)
    return Series(x, full, torch.full_like(full, origin))
