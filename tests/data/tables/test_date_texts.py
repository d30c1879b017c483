"""Dates as texts: read as Python's calendar has them, in forms that leave no doubt."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np
import pytest

from deepcanon.data.tables.date_texts import ISO, WRITTEN, days, form_of, text_of


@pytest.mark.parametrize("form", [ISO, *WRITTEN])
def test_every_form_gives_the_ordinals_of_the_calendar(form: str) -> None:
    dates = [date(1899, 12, 31) + timedelta(days=997 * step) for step in range(60)]
    texts = [
        f"{day:%Y-%m-%d}" if form == ISO else datetime(day.year, day.month, day.day).strftime(form) for day in dates
    ]
    found = form_of(texts)
    assert form in found
    assert len(found) == 1 or {datetime.strptime(texts[0], each).date() for each in found} == {dates[0]}
    epoch = date(1970, 1, 1).toordinal()
    meant = dates if "%d" in form or form == ISO else [day.replace(day=1) for day in dates]
    assert days(texts, form).tolist() == [day.toordinal() - epoch for day in meant]
    assert [text_of(day) for day in days(texts, form)] == [f"{day:%Y-%m-%d}" for day in meant]


def test_times_of_day_and_zones_are_shares_of_a_day() -> None:
    found = days(["1970-01-02T06:00", "1970-01-02 06:00:00", "1970-01-02T06:00+06:00", "1970-01-01T18:00Z"], ISO)
    assert found.tolist() == [1.25, 1.25, 1.0, 0.75]
    assert text_of(0.75) == "1970-01-01T18:00"


def test_what_is_no_date_is_infinite_and_what_is_missing_nan() -> None:
    assert days(["", "soon", "2024-02-30"], ISO).tolist()[1:] == [np.inf, np.inf]
    assert np.isnan(days([""], ISO)).all()


def test_the_day_is_told_from_the_month_only_where_one_is_beyond_12() -> None:
    assert form_of(["01/02/2024", "01/31/2024"]) == ("%m/%d/%Y",)
    assert form_of(["01/02/2024", "31/01/2024"]) == ("%d/%m/%Y",)
    assert len(form_of(["01/02/2024", "03/04/2024"])) == 2
    assert form_of(["red", "blue"]) == form_of(["1st", "2nd"]) == form_of([]) == ()


def test_a_few_mistakes_do_not_hide_that_a_column_holds_dates() -> None:
    texts = [f"2024-01-{day:02}" for day in range(1, 21)]
    assert form_of([*texts, "soon"]) == (ISO,)
    assert form_of([*texts, *"abcdef"]) == ()
