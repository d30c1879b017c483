"""Series and videos keep their parts together, count what is predicted, and are held out by time."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from deepcanon.core import AnyBatch, Batch, DataError, Labeled, LabeledSequences, Sequences, Series, Videos
from deepcanon.core.calendar import Calendar
from deepcanon.core.series import check_lengths, steps_from
from deepcanon.core.series_legend import SeriesLegend


def some(rows: int = 4, steps: int = 6) -> Series:
    x = torch.arange(rows * steps, dtype=torch.float32).view(rows, steps, 1)
    return Series(
        x,
        lengths=torch.tensor([6, 4, 5, 6]),
        origins=torch.tensor([2, 3, 1, 5]),
        covariates=torch.arange(rows * 16.0).view(rows, 8, 2),
        statics=torch.tensor([[3], [0], [1], [1]]),
        times=torch.arange(rows * steps).view(rows, steps),
    )


def test_a_selection_holds_the_rows_of_all_parts_and_none_of_what_is_missing() -> None:
    series = some()
    part = series.select(torch.tensor([2, 0])).to("cpu").part(torch.tensor([1, 0]))
    assert part.covariates is not None
    assert part.statics is not None
    assert part.times is not None
    assert series.covariates is not None
    assert part.x[:, 0, 0].tolist() == [0, 12]
    assert torch.equal(part.covariates, series.covariates[[0, 2]])
    assert (part.lengths.tolist(), part.origins.tolist(), part.statics.tolist()) == ([6, 5], [2, 1], [[3], [1]])
    plain = Series(series.x, series.lengths, series.origins).select(torch.tensor([1]))
    assert (plain.covariates, plain.statics, plain.times) == (None, None, None)


def test_the_weight_is_the_number_of_steps_that_are_predicted() -> None:
    series = some()
    assert series.weight == 4 + 1 + 4 + 1
    assert series.weight == sum(series.select(torch.tensor([row])).weight for row in range(4))
    assert series.past.weight == 0
    assert Videos(torch.zeros(2, 5, 3, 4, 4), torch.tensor([5, 2])).select(torch.tensor([1])).weight == 2


def test_frames_are_those_that_are_not_padding_and_the_first_half_is_given() -> None:
    x = torch.arange(10.0).view(2, 5, 1, 1, 1)
    videos = Videos(x, torch.tensor([5, 2]))
    assert videos.frames.flatten().tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert videos.past.lengths.tolist() == videos.origins.tolist() == [2, 1]
    assert Videos(x, torch.tensor([1, 1])).past.frames.flatten().tolist() == [0, 5]


@pytest.mark.parametrize("kind", [Batch, Labeled, Sequences, LabeledSequences])
def test_a_model_of_other_examples_is_not_given_series_or_videos(kind: type[AnyBatch]) -> None:
    assert not Series.is_a(kind)
    assert not Videos.is_a(kind)
    assert Series.is_a(Series)
    assert Series.is_a(AnyBatch)


def test_the_last_steps_are_held_out_and_never_trained_on() -> None:
    x = torch.zeros(5, 20, 1)
    series = Series(x, torch.tensor([20, 20, 14, 12, 20]), torch.tensor([4, 10, 4, 10, 18]))
    train, valid = series.hold_out(0.25, torch.Generator())
    assert train.lengths.tolist() == [16, 18, 12, 11, 19]
    assert torch.equal(valid.origins, train.lengths)
    assert torch.equal(valid.lengths, series.lengths)
    assert train.weight + valid.weight == series.weight
    with pytest.raises(DataError, match="at least 2 steps"):
        replace(series, origins=series.lengths - 1).hold_out(0.25, torch.Generator())


def test_steps_from_a_start_of_each_row_repeat_the_last_beyond_the_end() -> None:
    values = torch.arange(12).view(2, 3, 2)
    assert steps_from(values, torch.tensor([1, 2]), 2).tolist() == [[[2, 3], [4, 5]], [[10, 11], [10, 11]]]


@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        ("x", torch.zeros(4, 6), r"\(B, T, features\)"),
        ("x", torch.zeros(4, 6, 1, dtype=torch.long), "real numbers"),
        ("lengths", torch.ones(4), "whole numbers"),
        ("origins", torch.ones(3, dtype=torch.long), r"\(4,\)"),
        ("covariates", torch.zeros(4, 5, 2), "6 or more"),
        ("statics", torch.zeros(4, 1), "rows of ids"),
        ("times", torch.zeros(4, 5), r"\(4, 6\)"),
    ],
)
def test_parts_of_a_wrong_shape_are_refused(part: str, value: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        replace(some(), **{part: value})


def test_lengths_beyond_the_padding_and_origins_beyond_the_end_are_refused() -> None:
    series = some()
    check_lengths(series)
    with pytest.raises(DataError, match="from 1 to 6; got from 4 to 7"):
        check_lengths(replace(series, lengths=series.lengths + torch.tensor([1, 0, 0, 0])))
    with pytest.raises(DataError, match="not after the last"):
        check_lengths(replace(series, origins=torch.tensor([2, 5, 1, 5])))
    with pytest.raises(DataError, match="after the first step"):
        check_lengths(replace(series, origins=torch.tensor([0, 1, 1, 1])))
    with pytest.raises(DataError, match="videos padded to 5"):
        check_lengths(Videos(torch.zeros(2, 5, 3, 4, 4), torch.tensor([5, 0])))
    with pytest.raises(DataError, match="channels"):
        Videos(torch.zeros(2, 5, 4, 4), torch.tensor([5, 1]))


def test_a_selection_keeps_the_legend() -> None:
    legend = SeriesLegend("id", "t", ("a",), ("y",), ((1.0,),), ((2.0,),), Calendar("number", 1, 0))
    series = replace(some(), legend=legend)
    assert series.select(torch.tensor([2, 0])).legend is legend
    assert series.to("cpu").past.legend is legend
