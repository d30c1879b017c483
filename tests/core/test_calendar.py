"""Calendars count steps as numpy's calendar does, and write their times as they were read."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from deepcanon.core import UsageError
from deepcanon.core.calendar import DAY, Calendar, units_of

HOUR = DAY // 24


@pytest.mark.parametrize("every", [1, 3, 12])
@pytest.mark.parametrize("day", [1, 28, 30, 31])
def test_months_are_those_of_numpy_and_end_where_they_are_shorter(every: int, day: int) -> None:
    calendar = Calendar("month", every, start=2023 * 12 + 10, day=day, clock=9 * HOUR, pattern="%Y-%m-%d %H:%M")
    for step in range(-30, 60):
        month = np.datetime64("2023-11", "M") + step * every
        last = (month + 1).astype("datetime64[D]") - 1
        wanted = min(month.astype("datetime64[D]") + (day - 1), last)
        assert calendar.text(step) == f"{wanted} 09:00"
        time = calendar.at(step)
        assert calendar.step(time) == step
        assert isinstance(time, datetime)
        assert calendar.step(time + timedelta(hours=1)) is None


def test_weekdays_are_those_of_numpy() -> None:
    calendar = Calendar("weekday", 1, start=units_of(datetime(2024, 2, 28), "weekday"), pattern="%Y-%m-%d")
    for step in range(-300, 300):
        assert calendar.text(step) == str(np.busday_offset("2024-02-28", step, roll="forward"))
        assert calendar.step(calendar.at(step)) == step
    assert calendar.step(datetime(2024, 3, 2)) is None  # a Saturday


@pytest.mark.parametrize(("every", "stride"), [(HOUR, "1 hour"), (15 * HOUR // 60, "15 minutes"), (7 * DAY, "1 week"),
                                               (36 * HOUR, "36 hours"), (500_000, "500000 microseconds")])  # fmt: skip
def test_steps_of_one_length_go_on_across_leap_days(every: int, stride: str) -> None:
    start = datetime(2024, 2, 28, 22)
    calendar = Calendar("microsecond", every, units_of(start, "microsecond"), pattern="%Y-%m-%dT%H:%M:%S.%f")
    assert calendar.stride == stride
    for step in (-5, 0, 3, 1000):
        wanted = np.datetime64(start, "us") + np.timedelta64(step * every, "us")
        assert calendar.text(step) == str(wanted)
        assert calendar.step(calendar.at(step)) == step
    assert calendar.step(start + timedelta(microseconds=1)) is None


def test_an_offset_from_utc_is_written_again() -> None:
    calendar = Calendar(
        "microsecond", HOUR, units_of(datetime(2024, 1, 1), "microsecond"), 1, 0, "%Y-%m-%d %H:%M", "+02:00"
    )
    assert calendar.text(23) == "2024-01-02 01:00+02:00"
    assert calendar.phases(22, ("day",)) == pytest.approx([0, 1])  # midnight where it is written


def test_whole_numbers_are_times() -> None:
    calendar = Calendar("number", 5, 1980)
    assert (calendar.text(2), calendar.step(1990), calendar.step(1991), calendar.stride) == ("1990", 2, None, "5")
    assert calendar.cycles(10_000) == ()


def test_cycles_are_those_that_are_seen_twice_in_more_than_two_steps() -> None:
    hourly, daily = Calendar("microsecond", HOUR, 0), Calendar("microsecond", DAY, 0)
    monthly, weekday = Calendar("month", 1, 0), Calendar("weekday", 1, 0)
    assert hourly.cycles(47) == ()
    assert hourly.cycles(48) == ("day",)
    assert hourly.cycles(24 * 14) == ("day", "week")
    assert daily.cycles(800) == ("week", "year")
    assert Calendar("microsecond", 7 * DAY, 0).cycles(200) == ("year",)
    assert monthly.cycles(23) == ()
    assert monthly.cycles(24) == ("year",)
    assert Calendar("month", 6, 0).cycles(1000) == ()
    assert weekday.cycles(20) == ("week",)


def test_phases_turn_once_in_a_cycle() -> None:
    calendar = Calendar("microsecond", HOUR, units_of(datetime(2024, 1, 1), "microsecond"))  # a Monday
    assert calendar.phases(0, ("day", "week", "year")) == pytest.approx([0, 1] * 3)
    assert calendar.phases(6, ("day",)) == pytest.approx([1, 0])
    assert calendar.phases(42, ("week",)) == pytest.approx([1, 0])
    assert calendar.phases(24 * 7 * 3 + 5, ("day", "week")) == pytest.approx(calendar.phases(5, ("day", "week")))


@pytest.mark.parametrize("unit", ["microsecond", "weekday", "month"])
def test_dates_end_with_the_year_9999(unit: str) -> None:
    calendar = Calendar(unit, 2**40, 0, pattern="%Y-%m-%d")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="years 1 to 9999"):
        calendar.text(2**20)
