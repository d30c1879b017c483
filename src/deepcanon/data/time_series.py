"""Time series from tensors: checked, cut into windows, and split by time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import DataError, Series
from deepcanon.core.checks import at_least
from deepcanon.core.series import check_lengths


def windows(series: Series, given: int, steps: int, every: int = 1) -> Series:
    """All windows of ``given`` steps and ``steps`` to predict that begin at every n-th step, series by series.

    >>> long = Series(torch.arange(6.0).view(1, 6, 1), torch.tensor([6]), torch.tensor([1]))
    >>> windows(long, given=2, steps=1, every=2).x.squeeze(2)
    tensor([[0., 1., 2.],
            [2., 3., 4.]])
    """
    at_least(1, given=given, steps=steps, every=every)
    size = given + steps
    starts = [torch.arange(0, max(0, int(length) - size + 1), every) for length in series.lengths]
    if not sum(map(len, starts)):
        raise DataError(f"no series has the {size} steps of a window; the longest has {int(series.lengths.max())}")
    rows = torch.cat([torch.full((len(each),), row) for row, each in enumerate(starts)])
    return _cut(series, rows, torch.cat(starts), given, steps)


def split_by_time(
    series: Series, given: int, steps: int, every: int = 1, tests: int = 1, valids: int = 1
) -> tuple[Series, Series, Series]:
    """Windows for training, validation and test, never at random: what is predicted later is never trained on.

    The last ``steps`` of each series are predicted in the test, from ``tests`` forecast origins one after the other,
    those before them in the validation, from ``valids`` ones, and the windows of the training end before these. Each
    window has ``given`` steps before its forecast origin; these are past by then, and were trained on where they are
    old enough.
    """
    at_least(1, tests=tests, valids=valids)
    ends = series.lengths - (valids + tests) * steps
    if int(ends.min()) < given + steps:
        raise DataError(
            f"a split by time into windows of {given} and {steps} steps needs series of at least "
            f"{given + (1 + valids + tests) * steps} steps; the shortest has {int(series.lengths.min())}"
        )
    valid, test = (
        _from_origins(series, ends, given, steps, places) for places in (range(valids), range(valids, valids + tests))
    )
    return windows(replace(series, lengths=ends, origins=ends), given, steps, every), valid, test


def series_from(
    x: Tensor, lengths: Any = None, origins: Any = None, covariates: Any = None, statics: Any = None, times: Any = None
) -> tuple[Series, dict[str, int]]:
    """Checked series and the sizes they give a model; by default all steps count, and the first half is given."""
    full = torch.full((len(x),), x.shape[1])
    ends = full if lengths is None else _numbers(lengths)
    starts = (ends // 2).clamp_min(1) if origins is None else _numbers(origins)
    known = None if covariates is None else torch.as_tensor(covariates).to(x.dtype)
    series = Series(
        x, ends, starts, known, None if statics is None else _numbers(statics),
        None if times is None else torch.as_tensor(times),
    )  # fmt: skip
    check_lengths(series)
    sizes = {"features": x.shape[2]}
    if known is not None:
        sizes["covariates"] = known.shape[2]
    if series.statics is not None:
        if int(series.statics.min()) < 0:
            raise DataError(f"the ids of series count from 0, got {int(series.statics.min())}")
        sizes["statics"] = int(series.statics.max()) + 1
    return series, sizes


def _from_origins(series: Series, ends: Tensor, given: int, steps: int, places: range) -> Series:
    """The windows from the forecast origins at these places after the ends, series by series."""
    rows = torch.arange(len(series)).repeat_interleave(len(places))
    origins = (ends.unsqueeze(1) + steps * torch.tensor(places)).flatten()
    return _cut(series, rows, origins - given, given, steps)


def _cut(series: Series, rows: Tensor, starts: Tensor, given: int, steps: int) -> Series:
    """Windows of the series in these rows, each from its own start on; no more of a long one is copied."""
    places = starts.unsqueeze(1) + torch.arange(given + steps)
    parts = (series.x, series.covariates, series.times)
    x, covariates, times = (None if part is None else part[rows.unsqueeze(1), places] for part in parts)
    assert x is not None
    full = torch.full((len(rows),), given + steps)
    statics = None if series.statics is None else series.statics[rows]
    return Series(x, full, torch.full_like(full, given), covariates, statics, times, legend=series.legend)


def _numbers(values: Any) -> Tensor:
    found = torch.as_tensor(values)
    if found.is_floating_point():
        raise DataError(f"lengths, origins and statics of series are whole numbers, got {found.dtype}")
    return found.long()
