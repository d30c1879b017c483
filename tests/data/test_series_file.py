"""Series of a file: their values, times and splits, how they are standardized, and what is wrong with bad files."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from deepcanon.core import DataError, UsageError
from deepcanon.data import load_data, load_rows, of
from deepcanon.data.preprocessing import contradiction
from deepcanon.data.series_file import HELD_OUT_WINDOWS, MOST_WINDOWS

DAYS = [str(date(2024, 1, 1) + timedelta(days=day)) for day in range(900)]
LONG: Any = {"time": "day", "target": "sales", "horizon": 4}


def values(count: int, level: float) -> list[float]:
    random = np.random.default_rng(int(level))
    return [float(round(v, 3)) for v in level * (1 + 0.3 * np.sin(np.arange(count))) + random.normal(size=count)]


def written(path: Path, header: str, *rows: str) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def stores(path: Path, lengths: dict[str, tuple[int, int]]) -> tuple[Path, dict[str, list[float]]]:
    """A file in long form, its rows sorted by day: of each store, its first day and the number of days."""
    series = {name: values(count, 10.0 * place) for place, (name, (_, count)) in enumerate(lengths.items(), 1)}
    rows = [
        (DAYS[first + step], f'"{name}",{DAYS[first + step]},{series[name][step]}')
        for name, (first, count) in lengths.items()
        for step in range(count)
    ]
    return written(path, "store,day,sales", *(row for _, row in sorted(rows, key=lambda row: row[0]))), series


def in_units(part: Any) -> Any:
    return part.legend.in_units(part.x, part)


@pytest.fixture
def file(tmp_path: Path) -> tuple[Path, dict[str, list[float]]]:
    return stores(tmp_path / "sales.csv", {"north": (0, 60), "south": (20, 50), "a,b": (7, 33)})


def test_windows_hold_the_values_and_the_days_of_the_file(file: Any) -> None:
    path, series = file
    data: Any = load_data(path, series="store", **LONG)
    assert (data.kind, data.shape, dict(data.sizes)) == (
        "series", (12, 1), {"features": 1, "covariates": 2, "statics": 3},
    )  # fmt: skip
    starts = {"north": 0, "south": 20, "a,b": 7}
    assert set(data.test.legend.names) == set(starts)
    for part in (data.train, data.valid, data.test):
        found = in_units(part)[..., 0]
        for row, (name, times) in enumerate(zip(part.legend.names_of(part), part.times.tolist(), strict=True)):
            assert part.legend.texts(times) == DAYS[times[0] : times[0] + 12]
            first = times[0] - starts[name]
            np.testing.assert_allclose(found[row], series[name][first : first + 12], rtol=1e-5)


def test_what_comes_last_is_held_out_of_each_series(file: Any) -> None:
    path, series = file
    data: Any = load_data(path, series="store", **LONG)
    origins = 1  # a tenth of the shortest series has no room for more
    for name, place in ((name, data.test.legend.names.index(name)) for name in series):
        end = {"north": 60, "south": 70, "a,b": 40}[name]
        train, valid, test = (part.times[part.statics[:, 0] == place] for part in (data.train, data.valid, data.test))
        assert test[:, 8:].flatten().tolist() == list(range(end - 4 * origins, end))
        assert valid[:, 8:].flatten().tolist() == list(range(end - 8 * origins, end - 4 * origins))
        assert int(train.max()) == end - 8 * origins - 1


def test_each_series_is_standardized_by_what_comes_before_the_held_out_steps(file: Any) -> None:
    path, series = file
    data: Any = load_data(path, series="store", **LONG)
    legend = data.train.legend
    for name, mean, scale in zip(legend.names, legend.means, legend.scales, strict=True):
        old = np.array(series[name][:-8])
        np.testing.assert_allclose([*mean, *scale], [old.mean(), old.std()])
    later = path.with_name("later.csv")
    lines = path.read_text().splitlines()
    later.write_text("\n".join([*lines[:-1], lines[-1].rpartition(",")[0] + ",1e6"]) + "\n")
    changed: Any = load_data(later, series="store", **LONG)
    assert changed.train.legend.means == legend.means
    assert torch.equal(changed.train.x, data.train.x)


def test_raw_values_are_left_as_they_are(tmp_path: Path) -> None:
    rows = [f"{day},{step % 7}" for step, day in enumerate(DAYS[:40])]
    path = written(tmp_path / "counts.csv", "day,sales", *rows)
    data: Any = load_data(f"{path}:raw", **LONG)
    assert data.name.endswith(":raw")
    assert torch.equal(data.test.x.flatten(), torch.arange(28.0, 40.0) % 7)
    assert torch.equal(load_rows(str(path), data.preprocessing, reading=data.reading).x[:, -4:], data.test.x[:, -4:])


def test_wide_columns_are_series_that_begin_and_end_where_their_values_do(tmp_path: Path) -> None:
    late, early = values(40, 5.0), values(36, 50.0)
    rows = [f"{DAYS[i]},{late[i - 5] if i >= 5 else ''},{early[i] if i < 36 else 'NA'}" for i in range(45)]
    data: Any = load_data(written(tmp_path / "wide.csv", "day,late,early", *rows), time="day", horizon=4)
    assert data.test.legend.names == ("late", "early")
    assert data.test.times[:, -1].tolist() == [44, 35]
    np.testing.assert_allclose(in_units(data.test)[..., 0], [late[-12:], early[-12:]], rtol=1e-5)
    new = written(tmp_path / "new.csv", "day,note,early", *(f"{day},x,{step}" for step, day in enumerate(DAYS[:3])))
    with pytest.raises(DataError, match=r"new.csv: the series 'note' is not among the 2 of the training"):
        load_rows(str(new), data.preprocessing, reading=data.reading)


def test_several_targets_are_the_values_of_one_series(tmp_path: Path) -> None:
    first, second = values(40, 5.0), values(40, 50.0)
    rows = [f"{DAYS[i]},{first[i]},{second[i]}" for i in range(40)]
    path = written(tmp_path / "two.csv", "day,x,y z", *rows)
    data: Any = load_data(path, time="day", target="x, y z", horizon=4)
    assert dict(data.sizes) == {"features": 2, "covariates": 2}
    assert data.test.legend.features == ("x", "y z")
    np.testing.assert_allclose(in_units(data.test)[0], np.stack([first[-12:], second[-12:]], 1), rtol=1e-5)


def covered(path: Path, known: int) -> Path:
    """Two series with covariates that reach so many steps beyond their ends."""
    sales = values(50, 9.0)
    rows = [
        f"{name},{DAYS[i]},{'' if i >= end else sales[i]},{3 if i == 47 else i / 2},{'no' if i % 9 else 'yes'}"
        for name, end in (("a", 40), ("b", 45))
        for i in range(end + known)
    ]
    return written(path, "store,day,sales,price,offer", *rows)


def test_covariates_are_those_of_the_rows_and_reach_beyond_the_end(tmp_path: Path) -> None:
    path = covered(tmp_path / "offers.csv", known=3)
    options: Any = {**LONG, "series": "store"}
    data: Any = load_data(path, covariates="price,offer", **options)
    assert dict(data.sizes) == {"features": 1, "covariates": 1 + 2 + 2, "statics": 2}
    columns = data.preprocessing["series"]["covariates"]
    price = data.train.covariates[..., 0] * columns[0]["std"] + columns[0]["mean"]
    torch.testing.assert_close(price, data.train.times / 2.0)
    assert torch.equal(data.train.covariates[..., 2] == 1, data.train.times % 9 == 0)
    angle = 2 * torch.pi * data.train.times.double() / 7  # the first day is a Monday
    torch.testing.assert_close(data.train.covariates[..., 3].double(), angle.sin(), atol=1e-5, rtol=0)
    listed: Any = load_data(path, covariates=["price", "offer"], **options)
    assert torch.equal(listed.train.covariates, data.train.covariates)

    ahead: Any = load_rows(str(path), data.preprocessing, labeled=False, reading=data.reading)
    assert ahead.origins.tolist() == ahead.lengths.tolist() == [8, 8]
    assert ahead.times[:, -1].tolist() == [39, 44]
    reaching = ahead.legend.reaching(ahead, 3)
    beyond = reaching.covariates[:, 8:11, 0] * columns[0]["std"] + columns[0]["mean"]
    torch.testing.assert_close(beyond, torch.tensor([[20.0, 20.5, 21.0], [22.5, 23.0, 3.0]]))
    with pytest.raises(DataError, match=r"price, offer must be known of the 4 steps .* 'a' end before 2024-02-13: add "
                       r"its rows up to 2024-02-13, without values of sales"):  # fmt: skip
        ahead.legend.reaching(ahead, 4)


def test_a_new_category_of_a_covariate_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = covered(tmp_path / "offers.csv", known=3)
    data: Any = load_data(path, covariates="price,offer", series="store", **LONG)
    load_rows(str(path), data.preprocessing, labeled=False, reading=data.reading)
    assert capsys.readouterr().err == ""
    path.write_text(path.read_text().replace("yes", "maybe"))
    load_rows(str(path), data.preprocessing, labeled=False, reading=data.reading)
    said = "column 'offer': 11 rows have values that the training data do not have (maybe), taken as unknown"
    assert capsys.readouterr().err == f"{path}, {said}\n"


def test_phases_of_the_calendar_reach_as_far_as_is_asked(file: Any) -> None:
    path, _ = file
    data: Any = load_data(path, series="store", **LONG)
    ahead: Any = load_rows(str(path), data.preprocessing, labeled=False, reading=data.reading)
    far = ahead.legend.reaching(ahead, 100).covariates
    assert far.shape == (3, 108, 2)
    first = ahead.times[:, :1] + torch.arange(108)
    torch.testing.assert_close(far[..., 0].double(), (2 * torch.pi * first / 7).sin().double(), atol=1e-4, rtol=0)
    assert torch.equal(far[:, :8], ahead.covariates[:, :8])


def test_new_series_may_be_shorter_than_what_is_given_and_must_be_known(file: Any, tmp_path: Path) -> None:
    path, _ = file
    data: Any = load_data(path, series="store", **LONG)
    new, series = stores(tmp_path / "new.csv", {"south": (100, 30), "north": (110, 3)})
    ahead: Any = load_rows(str(new), data.preprocessing, labeled=False, reading=data.reading)
    assert ahead.legend.names_of(ahead) == ["south", "north"]
    assert ahead.lengths.tolist() == [8, 3]
    assert ahead.times[0].tolist() == list(range(122, 130))
    assert ahead.times[1, :3].tolist() == [110, 111, 112]
    np.testing.assert_allclose(in_units(ahead)[0, :, 0], series["south"][-8:], rtol=1e-5)
    np.testing.assert_allclose(in_units(ahead)[1, :3, 0], series["north"], rtol=1e-5)
    with pytest.raises(DataError, match=r"to compare a forecast of 4 steps with what came.*'north' has 3"):
        load_rows(str(new), data.preprocessing, reading=data.reading)
    strange, _ = stores(tmp_path / "strange.csv", {"south": (100, 30), "west": (110, 30)})
    with pytest.raises(DataError, match=r"strange.csv, line 13, column 'store': the series 'west' is not among the 3"):
        load_rows(str(strange), data.preprocessing, reading=data.reading)


def test_frames_and_parquet_are_read_as_a_file_of_their_columns(file: Any, tmp_path: Path) -> None:
    path, series = file
    start = {"north": 0, "a,b": 7, "south": 20}  # in the order in which they begin
    rows = [(name, start[name] + step, value) for name in start for step, value in enumerate(series[name])]
    frame = pa.table({
        "store": [name for name, _, _ in rows],
        "day": [date.fromisoformat(DAYS[day]) for _, day, _ in rows],
        "sales": [value for _, _, value in rows],
    })  # fmt: skip
    wanted: Any = load_data(path, series="store", **LONG)
    parquet.write_table(frame, tmp_path / "sales.parquet")
    for data in (frame, tmp_path / "sales.parquet"):
        found: Any = of(data, series="store", **LONG)
        assert found.fingerprint() == wanted.fingerprint()
        assert found.test.legend == wanted.test.legend


def test_few_long_series_have_several_origins_and_windows_far_apart(tmp_path: Path) -> None:
    path = written(tmp_path / "long.csv", "t,y", *(f"{step},{step % 24}" for step in range(20_000)))
    data: Any = load_data(path, time="t", target="y", horizon=24)
    assert len(data.valid) == len(data.test) == HELD_OUT_WINDOWS
    assert MOST_WINDOWS / 3 < len(data.train) <= MOST_WINDOWS
    assert len(set((data.train.times[:, 0] % 24).tolist())) == 24  # windows begin at every place of a day
    assert int(data.train.times.max()) < int(data.valid.times[:, 48:].min())
    assert int(data.valid.times.max()) < int(data.test.times[:, 48:].min())


def test_the_same_file_loaded_by_its_preprocessing_gives_the_same_data(file: Any) -> None:
    path, _ = file
    data: Any = load_data(path, series="store", **LONG)
    again: Any = load_data(path, preprocessing=data.preprocessing, series="store", **LONG)
    assert again.fingerprint() == data.fingerprint()
    assert again.preprocessing == data.preprocessing
    assert again.test.legend == data.test.legend


def test_a_preprocessing_that_contradicts_itself_is_seen(file: Any) -> None:
    path, _ = file
    data: Any = load_data(path, series="store", **LONG)
    saved = data.preprocessing["series"]
    about = {"sizes": dict(data.sizes), "kind": "series"}
    assert contradiction({**about, "preprocessing": data.preprocessing}) == ""
    legend = saved["legend"]
    for change, says in (
        ({"means": legend["means"][:2]}, "means of the time series"),
        ({"scales": [[1.0, 2.0]] * 3}, "scales of the time series"),
        ({"features": ["a"]}, "columns of the time series"),
        ({"cycles": []}, "'statics': 3"),
        ({"calendar": {**legend["calendar"], "pattern": ""}}, "how its dates are written"),
    ):
        damaged = {"series": {**saved, "legend": {**legend, **change}}}
        assert says in contradiction({**about, "preprocessing": damaged})


BASE = [f"{day},{step % 5}" for step, day in enumerate(DAYS[:40])]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([*BASE[:9], *BASE[12:]], r"line 11, column 'day': the series 'sales' lacks 3 steps, the first 2024-01-10"),
        ([*BASE[:9], *BASE[10:]], r"lacks a step, 2024-01-10: steps are 1 day apart; fill in what is missing"),
        ([*BASE[:9], *BASE[8:]], r"line 11, column 'day': 2024-01-09 comes twice .*line 10.*--series"),
        ([*BASE[:9], *BASE[3:]], r"line 11, .* goes back from 2024-01-09 \(line 10\) to 2024-01-04: sort"),
        (
            [*BASE[:9], BASE[10], BASE[9], *BASE[11:]],
            r"line 12, .* goes back from 2024-01-11 \(line 11\) to 2024-01-10",
        ),
        ([*BASE[:9], "9 January,3", *BASE[10:]], r"line 11, column 'day': a time was expected"),
        ([*BASE[:9], f"{DAYS[9]},", *BASE[10:]], r"line 11, column 'sales': the value of 'sales' is missing"),
        ([*BASE[:9], f"{DAYS[9]},many", *BASE[10:]], r"line 11, column 'sales': a number was expected, got 'many'"),
        ([*BASE[:9], DAYS[9], *BASE[10:]], r"line 11 has 1 values, but there are 2 columns"),
        ([*BASE[:9], f"{DAYS[9]},1e300", *BASE[10:]], r"line 11, column 'sales': 1e\+300 is too large"),
        ([*BASE[:-1], f"{DAYS[39]},1e200"], r"line 41, column 'sales': 1e\+200 is too large"),
        (BASE[:1], "no series of two steps"),
        (BASE[:19], "a series needs 20 steps, 8 to be given and three times the horizon of 4; 1 of 1 have fewer"),
        ([f"{day}," for day in DAYS[:40]], "the series 'sales' has no values"),
        ([], "has no rows"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, rows: list[str], says: str) -> None:
    path = written(tmp_path / "bad.csv", "day,sales", *rows)
    with pytest.raises(DataError, match=says) as error:
        load_data(path, **LONG)
    assert str(error.value).startswith(str(path))


def test_dates_in_another_form_are_read_and_forecasts_come_in_iso(tmp_path: Path) -> None:
    days = [datetime.fromisoformat(day) for day in DAYS[:40]]
    forms = [(f"{day:%d.%m.%Y}", f"{day:%m/%d/%Y}") for day in days]
    iso = load_data(written(tmp_path / "iso.csv", "day,sales", *BASE), **LONG)
    for place in (0, 1):
        rows = [f"{form[place]},{step % 5}" for step, form in enumerate(forms)]
        data = load_data(written(tmp_path / f"{place}.csv", "day,sales", *rows), **LONG)
        assert data.fingerprint() == iso.fingerprint()
        assert data.preprocessing["series"]["legend"]["calendar"] == iso.preprocessing["series"]["legend"]["calendar"]
    few = [f"{day:%d/%m/%Y},{step % 5}" for step, day in enumerate(days) if day.day <= 12][:12]
    with pytest.raises(DataError, match="no day above 12 says which of its numbers is the month"):
        load_data(written(tmp_path / "few.csv", "day,sales", *few), **LONG)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "is empty"), (b"day,sales\n2024-01-01,\xe9\n", "not UTF-8"), (b"day,sales,day\n1,2,3\n", "two columns")],
)
def test_files_that_are_not_tables_are_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=says):
        load_data(path, **LONG)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"time": None}, "which column .* says when its steps are"),
        ({"horizon": None}, "how many steps .* --horizon"),
        ({"horizon": 0}, "the horizon is a whole number of steps, at least 1; got 0"),
        ({"lookback": 0}, "the lookback is a whole number of steps, at least 1; got 0"),
        ({"target": "price"}, "no column 'price'; there are day, sales"),
        ({"covariates": "sales"}, "'sales' is named twice"),
        ({"target": None, "series": "sales"}, "holds the values of the series that 'sales' names"),
        ({"target": None, "covariates": "sales"}, "where is a series"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: Any, says: str) -> None:
    path = written(tmp_path / "sales.csv", "day,sales", *BASE)
    with pytest.raises((UsageError, DataError), match=says):
        load_data(path, **{**LONG, **options})


def test_other_files_take_no_horizon() -> None:
    with pytest.raises(UsageError, match="without a horizon to choose"):
        load_data("digits", horizon=3)


def test_what_is_read_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "sales.csv", "day,sales,note", *(f"{row},x" for row in BASE))
    first, second, third = load_data(path, **LONG).remarks
    assert first.startswith("1 time series of 40 steps, 1 day apart, from 2024-01-01 to 2024-02-09; the last 4 of each")
    assert "week" in second
    assert third.startswith("Not read: note;")
