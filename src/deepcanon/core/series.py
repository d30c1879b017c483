"""Batches of time series and of videos: real values at every step, right-padded to one length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Generator, Tensor

from deepcanon.core.batch import AnyBatch
from deepcanon.core.errors import DataError
from deepcanon.core.padding import valid_positions
from deepcanon.core.series_legend import SeriesLegend


@dataclass(frozen=True, eq=False)
class Series(AnyBatch):
    """Time series, right-padded: real values ``x`` (B, T, features); of row i the first ``lengths[i]`` steps count.

    The first ``origins[i]`` steps of a row are given, up to its forecast origin; a model predicts the others, and its
    loss is the mean over these. What is known besides: ``covariates`` (B, T or more, covariates), which are known of
    the future too and so may reach beyond the series; ``statics`` (B, ids), whole numbers that say what the series is
    of; and ``times`` (B, T), when the steps are. The padding is never read. A value that is missing is NaN, and
    neither read nor predicted. Of series from a file the ``legend`` says what all these numbers stand for.

    >>> series = Series(torch.zeros(2, 5, 1), lengths=torch.tensor([5, 3]), origins=torch.tensor([2, 2]))
    >>> series.weight, series.past.lengths
    (4, tensor([2, 2]))
    """

    noun = "time series"
    term = "step"
    lengths: Tensor
    origins: Tensor
    covariates: Tensor | None = None
    statics: Tensor | None = None
    times: Tensor | None = None
    legend: SeriesLegend | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.x.ndim != 3 or not self.x.is_floating_point():
            raise DataError(f"time series are real numbers, (B, T, features); got {_shown(self.x)}")
        rows, steps = self.x.shape[:2]
        for name in ("lengths", "origins"):
            _check_whole(name, getattr(self, name), (rows,), "one number for each series")
        if self.statics is not None:
            _check_whole("statics", self.statics, (rows, *self.statics.shape[1:2]), "rows of ids")
        known = self.covariates
        if known is not None and (known.ndim != 3 or known.shape[0] != rows or known.shape[1] < steps):
            raise DataError(f"covariates have the shape ({rows}, {steps} or more, covariates); got {_shown(known)}")
        if self.times is not None and tuple(self.times.shape) != (rows, steps):
            raise DataError(f"times have the shape {(rows, steps)}; got {_shown(self.times)}")

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.lengths, self.origins, self.covariates, self.statics)

    @property
    def weight(self) -> int:
        return int(self.predicted.any(2).sum())

    @property
    def predicted(self) -> Tensor:
        """True at the values that a loss counts: those after the forecast origins that are there, like ``x``."""
        step = torch.arange(self.x.shape[1], device=self.x.device)
        ahead = (step >= self.origins.unsqueeze(1)) & (step < self.lengths.unsqueeze(1))
        return ahead.unsqueeze(2) & ~self.x.isnan()

    @property
    def past(self) -> Self:
        """The series up to their forecast origins; what comes after is padding, but for the covariates."""
        return replace(self, lengths=self.origins)

    def hold_out(self, share: float, generator: Generator) -> tuple[Self, Self]:
        """Split by time, never at random: the last steps of every series are held out, given all that comes before."""
        steps = ((self.lengths - self.origins) * share).round().long().clamp_min(1)
        ends = self.lengths - steps
        if bool((ends <= self.origins).any()):
            raise DataError("to hold out the last steps of a series, at least 2 steps must come after its origin")
        return replace(self, lengths=ends), replace(self, origins=ends)

    def _map(self, change: Callable[[Tensor], Tensor], **others: Any) -> Self:
        return super()._map(change, legend=self.legend, **others)


@dataclass(frozen=True, eq=False)
class Videos(AnyBatch):
    """Videos, right-padded: frames ``x`` (B, T, channels, height, width); of row i the first ``lengths[i]`` count.

    A loss is the mean over all frames. The padding is never read.

    >>> videos = Videos(torch.zeros(2, 5, 1, 4, 4), torch.tensor([5, 3]))
    >>> videos.weight, tuple(videos.frames.shape)
    (8, (8, 1, 4, 4))
    """

    noun = "videos"
    term = "frame"
    lengths: Tensor

    def __post_init__(self) -> None:
        if self.x.ndim != 5:
            raise DataError(f"videos have the shape (B, T, channels, height, width); got {_shown(self.x)}")
        _check_whole("lengths", self.lengths, (len(self.x),), "one number for each video")

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.lengths)

    @property
    def weight(self) -> int:
        return int(self.lengths.sum())

    @property
    def frames(self) -> Tensor:
        """The frames that are not padding, video by video, (frames, channels, height, width)."""
        return self.x[valid_positions(self.x, self.lengths)]

    @property
    def origins(self) -> Tensor:
        """How many frames of each video are given where it is to be continued: its first half, (B,)."""
        return (self.lengths // 2).clamp_min(1)

    @property
    def past(self) -> Self:
        """The first half of each video; what comes after is padding."""
        return replace(self, lengths=self.origins)


def steps_from(values: Tensor, starts: Tensor, steps: int) -> Tensor:
    """Of values (B, T, ...) in each row so many steps from its own start on; beyond the end the last one is repeated.

    >>> steps_from(torch.arange(6).view(2, 3), torch.tensor([0, 1]), 2)
    tensor([[0, 1],
            [4, 5]])
    """
    index = (starts.unsqueeze(1) + torch.arange(steps, device=starts.device)).clamp_max(values.shape[1] - 1)
    return values.gather(1, index.view(*index.shape, *[1] * (values.ndim - 2)).expand(-1, -1, *values.shape[2:]))


def filled(x: Tensor) -> Tensor:
    """Values (B, T, features) in which the last one before stands in for each that is missing, or 0 if there is none.

    >>> filled(torch.tensor([[[torch.nan], [2.0], [torch.nan]]])).flatten()
    tensor([0., 2., 2.])
    """
    step = torch.arange(x.shape[1], device=x.device).view(1, -1, 1)
    last = step.masked_fill(x.isnan(), 0).cummax(1).values
    values = x.gather(1, last)
    return values.masked_fill(values.isnan(), 0)


def check_lengths(batch: Series | Videos) -> None:
    """Check that the lengths lie within the padded length, and a forecast origin within its series."""
    if batch.x.is_meta:  # which has no values
        return
    lengths, most = batch.lengths, batch.x.shape[1]
    if not bool(((lengths >= 1) & (lengths <= most)).all()):
        raise DataError(
            f"{batch.noun} padded to {most} steps have lengths from 1 to {most}; "
            f"got from {int(lengths.min())} to {int(lengths.max())}"
        )
    if isinstance(batch, Series) and not bool(((batch.origins >= 1) & (batch.origins <= lengths)).all()):
        raise DataError("a forecast origin comes after the first step of its series and not after the last")


def _check_whole(name: str, values: Tensor, shape: tuple[int, ...], what: str) -> None:
    if tuple(values.shape) != shape or values.is_floating_point():
        raise DataError(f"{name} are whole numbers, {what}: {shape}; got {_shown(values)}")


def _shown(values: Tensor) -> str:
    return f"{values.dtype} of {tuple(values.shape)}"
