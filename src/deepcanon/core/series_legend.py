"""Legends of time series: what the numbers of a batch stand for in the file that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deepcanon.core.calendar import Calendar, Cycle
from deepcanon.core.errors import DataError
from deepcanon.core.hints import listed
from deepcanon.core.plural import counted

if TYPE_CHECKING:
    from deepcanon.core.series import Series


DIGITS = 6
"""The digits of a standardized value after its point that single precision still has."""


@dataclass(frozen=True)
class SeriesLegend:
    """The legend of series from a file: their names, when their steps are, and the units of their values.

    Arguments:
        column: The column that names the series.
        time: The column that says when the steps are.
        names: The name of each series; its place among them is the id in ``statics``, which a single one has not.
        features: The names of the values at each step.
        means: What was subtracted from each feature of each series, a row for each.
        scales: What they were then divided by.
        calendar: The times of the steps, by the numbers in ``times``.
        covariates: The names of the columns of covariates.
        known: How many of the covariates are made of these columns; those of the ``cycles`` of time come after them.
        cycles: The cycles of time whose phases are covariates.
    """

    column: str
    time: str
    names: tuple[str, ...]
    features: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    scales: tuple[tuple[float, ...], ...]
    calendar: Calendar
    covariates: tuple[str, ...] = ()
    known: int = 0
    cycles: tuple[Cycle, ...] = ()

    def ids(self, series: Series) -> list[int]:
        """Which series each row is of."""
        return [0] * len(series) if series.statics is None else series.statics[:, 0].tolist()

    def names_of(self, series: Series) -> list[str]:
        return [self.names[each] for each in self.ids(series)]

    def in_units(self, values: Tensor, series: Series) -> Tensor:
        """Values (..., B, T, features) of these series in the units of the file, in double precision."""
        ids = self.ids(series)
        means, scales = (torch.tensor(each, dtype=torch.float64)[ids] for each in (self.means, self.scales))
        return values.cpu().double() * scales.unsqueeze(1) + means.unsqueeze(1)

    def as_given(self, series: Series) -> Series:
        """The series in the units of the file, in double precision, without the digits that single precision loses."""
        scales = torch.tensor(self.scales, dtype=torch.float64)[self.ids(series)].unsqueeze(1)
        digit = 10.0 ** (scales.log10().floor() - DIGITS)
        return replace(series, x=(self.in_units(series.x, series) / digit).round() * digit)

    def log_det(self, series: Series) -> float:
        """What is added to the log-density of a step, a mean over all that are predicted, to have it in these units."""
        logs = torch.tensor(self.scales, dtype=torch.float64)[self.ids(series)].log()
        return -float((logs * series.predicted.sum(1).cpu()).sum() / series.weight)

    def texts(self, times: Sequence[int]) -> list[str]:
        """The times of steps as the file writes them."""
        written = {step: self.calendar.text(step) for step in set(times)}
        return [written[step] for step in times]

    def phases(self, times: Tensor) -> Tensor:
        """The phases of the cycles at these times (B, T) as covariates, (B, T, 2 for each cycle)."""
        different, place = times.unique(return_inverse=True)
        rows = [self.calendar.phases(step, self.cycles) for step in different.tolist()]
        return torch.tensor(rows).view(len(different), 2 * len(self.cycles))[place]

    def reaching(self, series: Series, steps: int) -> Series:
        """The series with the covariates of so many steps after their forecast origins; those of a file must be there.

        What is known of the future in a file are the rows after the end of a series, without values.
        """
        if series.covariates is None or series.times is None:
            return series
        needed = int(series.origins.max()) + steps
        there, lacking = series.covariates.shape[1], max(0, needed - series.covariates.shape[1])
        known = torch.nn.functional.pad(series.covariates, (0, 0, 0, lacking), value=torch.nan)
        last = series.times.gather(1, series.lengths.unsqueeze(1) - 1)
        times = last + torch.arange(there + lacking) - (series.lengths.unsqueeze(1) - 1)
        if self.known:
            self._check_known(series, known[..., : self.known], times, steps)
        return replace(series, covariates=torch.cat([known[..., : self.known], self.phases(times)], 2))

    def _check_known(self, series: Series, known: Tensor, times: Tensor, steps: int) -> None:
        ahead = (torch.arange(known.shape[1]) - series.origins.unsqueeze(1)).unsqueeze(2)
        missing = (known.isnan() & (ahead >= 0) & (ahead < steps)).any(2)
        if not bool(missing.any()):
            return
        row = int(missing.any(1).nonzero()[0])
        place = int(missing[row].nonzero()[0])
        origin = int(series.origins[row])
        raise DataError(
            f"{listed(self.covariates)} must be known of the {counted(steps, 'step')} to forecast, and those of "
            f"{self.names_of(series)[row]!r} end before {self.calendar.text(int(times[row, place]))}: add its rows up "
            f"to {self.calendar.text(int(times[row, origin + steps - 1]))}, without values of {listed(self.features)}"
        )
