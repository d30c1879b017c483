"""Times are read from texts, and their calendar is found: what it writes is what the file has."""

import calendar as months
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepcanon.core import DataError
from deepcanon.data.tables.csv_file import read
from deepcanon.data.time_column import calendar_of, times_of


def written(start: str, step: timedelta, pattern: str, count: int = 30) -> list[str]:
    first = datetime.fromisoformat(start)
    return [f"{first + i * step:{pattern}}" for i in range(count)]


def column(folder: Path, texts: list[str]) -> Any:
    path = folder / "times.csv"
    path.write_text("t,y\n" + "".join(f"{text},1\n" for text in texts))
    return times_of(read(path, ["t"]), "t")


DAY, HOUR = timedelta(days=1), timedelta(hours=1)
ENDS = [f"{year}-{month:02d}-{months.monthrange(year, month)[1]}" for year in (2023, 2024) for month in range(1, 13)]
WEEKDAYS = [text for text in written("2024-01-03", DAY, "%Y-%m-%d", 60) if date.fromisoformat(text).weekday() < 5]


@pytest.mark.parametrize(
    ("texts", "unit", "stride"),
    [
        (written("2024-02-20", DAY, "%Y-%m-%d"), "microsecond", "1 day"),
        (written("2024-02-20", DAY, "%Y%m%d"), "microsecond", "1 day"),
        (written("2024-02-20", 7 * DAY, "%Y-%m-%d"), "microsecond", "1 week"),
        (written("2024-02-20", 28 * DAY, "%Y-%m-%d"), "microsecond", "4 weeks"),
        (written("2024-02-20", HOUR, "%Y-%m-%d %H:%M:%S"), "microsecond", "1 hour"),
        (written("2024-02-20", HOUR / 4, "%Y-%m-%dT%H:%M"), "microsecond", "15 minutes"),
        (written("2024-02-20", HOUR / 36000, "%Y-%m-%dT%H:%M:%S.%f"), "microsecond", "100000 microseconds"),
        (written("2024-02-20", HOUR, "%Y-%m-%dT%H:%M:%SZ"), "microsecond", "1 hour"),
        (written("2024-02-20", HOUR, "%Y-%m-%d %H:%M+05:30"), "microsecond", "1 hour"),
        (WEEKDAYS, "weekday", "1 weekday"),
        (ENDS, "month", "1 month"),
        ([text[:7] for text in ENDS], "month", "1 month"),
        (ENDS[2::3], "month", "3 months"),
        ([f"{year}-02-{28 + (year % 4 == 0)}" for year in range(2001, 2020)], "month", "12 months"),
        ([f"{text[:7]}-15 06:00" for text in ENDS], "month", "1 month"),
        ([str(year) for year in range(1990, 2010)], "number", "1"),
        ([str(-4 + 2 * step) for step in range(20)], "number", "2"),
    ],
)  # fmt: skip
def test_the_calendar_of_a_column_writes_it_again(tmp_path: Path, texts: list[str], unit: str, stride: str) -> None:
    times = column(tmp_path, texts)
    found = calendar_of(times, [np.arange(len(texts))])
    assert (found.unit, found.stride) == (unit, stride)
    steps = times.steps(found)
    assert steps.tolist() == list(range(len(texts)))
    assert [found.text(step) for step in steps.tolist()] == texts


def test_the_step_is_that_of_most_rows_within_their_series(tmp_path: Path) -> None:
    first = written("2024-01-01", DAY, "%Y-%m-%d", 10)
    texts = [*first[:4], *first[6:], *first[:5]]  # with a gap, and another series after it
    found = calendar_of(column(tmp_path, texts), [np.arange(8), np.arange(8, 13)])
    assert found.stride == "1 day"


def test_offsets_that_differ_are_one_hour_apart_in_utc(tmp_path: Path) -> None:
    texts = ["2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00", "2024-03-31T04:00+02:00"]  # the clocks go forward
    times = column(tmp_path, texts)
    found = calendar_of(times, [np.arange(3)])
    assert times.steps(found).tolist() == [0, 1, 2]
    assert found.text(0) == "2024-03-31T00:00+00:00"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("31/01/2024", "a time was expected, as 2024-01-31.*got '31/01/2024'"),
        ("2024-02-30", "got '2024-02-30'"),
        ("", "and there is none"),
        ("2024-01-03T12:00+01:00", "line 2.*'2024-01-01' has no offset from UTC, and others have one"),
        ("7", "got '7'"),
    ],
)
def test_what_is_not_a_time_is_named_with_its_line(tmp_path: Path, wrong: str, says: str) -> None:
    with pytest.raises(DataError, match=says) as error:
        column(tmp_path, ["2024-01-01", "2024-01-02", wrong])
    assert "times.csv, line " in str(error.value)


def test_a_time_between_two_steps_is_named_with_its_line(tmp_path: Path) -> None:
    texts = [*written("2024-01-01", DAY, "%Y-%m-%d", 5), "2024-01-05T12:00"]
    times = column(tmp_path, texts)
    with pytest.raises(DataError, match=r"line 7, column 't': '2024-01-05T12:00' lies between two steps.*1 day apart"):
        times.steps(calendar_of(times, [np.arange(6)]))
    numbers = column(tmp_path, ["1", "2"])
    with pytest.raises(DataError, match="dates, as those of the training, were expected, got '1'"):
        numbers.steps(calendar_of(times, [np.arange(6)]))


def test_a_single_row_has_no_step(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no series of two steps"):
        calendar_of(column(tmp_path, ["2024-01-01"]), [np.arange(1)])
