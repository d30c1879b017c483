"""Time series from CSV files: in long form, a row for each step of each series, or in wide form, a column for each.

A file is one of series where a column of ``time`` is named. With a ``target`` it is in long form: the targets are the
values at each step, and ``series`` names the column that says which series a row is of. Without one every column but
the time and the covariates is a series of its own. The preprocessing is fitted on the training split and kept as JSON:

- The values of each series are standardized by their own mean and standard deviation, unless the form is ``raw``.
- ``covariates`` are treated as the columns of a table, and are known of the future: a file may go on with rows that
  have them and no values. The phases of the day, the week and the year are covariates, too, where dates show them.
- Series are split by time; each has an id, if there are several.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import DataError, Series, UsageError
from deepcanon.core.calendar import Calendar
from deepcanon.core.hints import listed
from deepcanon.core.memory import need
from deepcanon.core.plural import counted
from deepcanon.core.reading import Reading
from deepcanon.core.series import steps_from
from deepcanon.core.series_legend import SeriesLegend
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.series_columns import Columns, Lane, lanes_of
from deepcanon.data.tables.csv_file import CsvFile, is_csv, read
from deepcanon.data.tables.prepared_table import RAW
from deepcanon.data.tables.table import Table, say_unknown
from deepcanon.data.tables.table_columns import ROUNDING, Category, Number
from deepcanon.data.time_column import calendar_of, times_of
from deepcanon.data.time_series import split_by_time

TAKES = frozenset({"time", "target", "series", "covariates", "horizon", "lookback"})
OF_SERIES = TAKES - {"target"}
"""The reading options that only files of series have."""

LOOKBACK = 2
"""The horizons that a model is given, unless ``lookback`` says otherwise."""
HELD_OUT_WINDOWS = 32
"""The validation and the test are of about so many windows each; fewer series have several forecast origins."""
LARGEST_SHARE = 0.1
"""The share of the shortest series that the validation or the test may take for further forecast origins."""
MOST_WINDOWS = 4096
"""Of more windows to train on, those are taken that begin at every n-th step."""
SEASONS = 2 * 3 * 5 * 7
"""Windows are so many steps apart that they begin at every place of a season of any of these lengths."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class SeriesTable:
    """The preprocessing of series from a file: what its columns are, and what was fitted."""

    columns: Columns
    covariates: Table
    legend: SeriesLegend
    horizon: int
    lookback: int

    def batch(self, lanes: list[Lane], file: CsvFile) -> Series:
        """The whole series, with their covariates as far as the file has them."""
        legend = self.legend
        width, most = max(len(lane.values) for lane in lanes), max(len(lane.rows) for lane in lanes)
        rows, features = len(lanes), len(legend.features)
        covariates = legend.known + 2 * len(legend.cycles)
        need(8 * rows * most * (features + covariates + 1), f"{rows:,} series of up to {most:,} steps", "take fewer")
        x = np.zeros((rows, width, features))
        known = np.full((rows, most, legend.known), np.nan)
        places = {name: place for place, name in enumerate(legend.names)}
        ids = [places[lane.name] for lane in lanes]
        for row, (lane, place) in enumerate(zip(lanes, ids, strict=True)):
            x[row, : len(lane.values)] = self._standardized(lane, place, file)
            if legend.known:
                known[row, : len(lane.rows)] = self.covariates.x(file.rows(lane.rows))
        starts = torch.tensor([lane.first for lane in lanes]).unsqueeze(1)
        lengths = torch.tensor([len(lane.values) for lane in lanes])
        times = starts + torch.arange(most)
        covered = torch.cat([torch.from_numpy(known).float(), legend.phases(times)], 2) if covariates else None
        return Series(
            torch.from_numpy(x).float(), lengths, lengths, covered,
            torch.tensor(ids).unsqueeze(1) if len(legend.names) > 1 else None, times[:, :width], legend=legend,
        )  # fmt: skip

    def _standardized(self, lane: Lane, place: int, file: CsvFile) -> Values:
        """The values of a series in its units, if they fit into single precision."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = (lane.values - self.legend.means[place]) / self.legend.scales[place]
        large = ~(np.abs(values) < np.finfo(np.float32).max) | ~np.isfinite(self.legend.scales[place])
        large &= ~np.isnan(lane.values)
        if large.any():
            step, feature = np.unravel_index(np.argmax(np.where(large, np.abs(lane.values), 0)), values.shape)
            name, value = self.columns.values_of(lane.name)[feature], lane.values[step, feature]
            raise file.wrong(int(lane.rows[step]), name, f"{value:.3g} is too large; write it in a larger unit")
        return values

    def sizes(self) -> dict[str, int]:
        legend = self.legend
        covariates, statics = legend.known + 2 * len(legend.cycles), len(legend.names)
        sizes = {"features": len(legend.features), "covariates": covariates, "statics": statics if statics > 1 else 0}
        return {name: size for name, size in sizes.items() if size}

    def as_json(self) -> dict[str, Any]:
        legend = {
            name: value for name, value in asdict(self.legend).items() if name not in ("covariates", "known", "column")
        }
        return {
            "columns": asdict(self.columns),
            "covariates": self.covariates.as_json()["columns"],
            "legend": legend,
            "horizon": self.horizon,
            "lookback": self.lookback,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        if "series" not in saved:
            raise DataError(f"this preprocessing is not that of time series: it has {listed(saved)}, not series")
        found, facts = saved["series"], saved["series"]["legend"]
        columns = Columns(**{name: _tuple(value) for name, value in found["columns"].items()})
        covariates = Table.from_json({"columns": found["covariates"]})
        means, scales = (tuple(map(tuple, facts[name])) for name in ("means", "scales"))
        legend = _legend(
            columns, covariates, Calendar(**facts["calendar"]), tuple(facts["names"]), tuple(facts["features"]), means,
            scales, tuple(facts["cycles"]),
        )  # fmt: skip
        return cls(columns, covariates, legend, found["horizon"], found["lookback"])


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[Series]:
    """The series of a CSV file in windows, split by time: what comes last is held out.

    With the ``preprocessing`` that an earlier load has fitted, nothing is fitted anew.
    """
    raw = RAW in forms
    if preprocessing is None:
        horizon, lookback = _lengths(path, reading)
        file = _read(path, reading)
        columns = Columns.of(file, reading)
    else:
        saved = SeriesTable.from_json(preprocessing)
        horizon, lookback, columns = saved.horizon, saved.lookback, saved.columns
        file = read(path, columns.words)
    times = times_of(file, columns.time)
    rows = columns.rows(file)
    calendar = calendar_of(times, list(rows.values())) if preprocessing is None else saved.legend.calendar
    if preprocessing is not None:
        _check_known(file, columns, rows, saved.legend)
    lanes = lanes_of(file, columns, rows, times.steps(calendar), calendar)
    _check_long_enough(path, lanes, horizon, lookback)
    origins = _origins(lanes, horizon)
    table = (
        _fit(file, columns, lanes, calendar, horizon, lookback, raw, 2 * origins) if preprocessing is None else saved
    )
    every = _every(lanes, horizon, lookback, 2 * origins)
    train, valid, test = split_by_time(
        table.batch(lanes, file), lookback, horizon, every, tests=origins, valids=origins
    )
    return Dataset(
        name=f"{path}:{RAW}" if raw else str(path),
        kind="series",
        train=train,
        valid=valid,
        test=test,
        sizes=table.sizes(),
        shape=(lookback + horizon, len(table.legend.features)),
        source=str(path.resolve()),
        target=reading.get("target"),
        preprocessing={"series": table.as_json()} | ({"form": RAW} if raw else {}),
        remarks=tuple(_remarks(file, table, lanes, origins)),
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Series:
    """The end of each series of a file, treated as those of a saved ``preprocessing`` were.

    If they are to be ``labeled``, the last steps are those that a forecast is compared with, as many as the horizon
    has; else the forecast origin is the end of each series, and only the covariates reach further. Categories of these
    that are new are said on stderr.
    """
    table = SeriesTable.from_json(preprocessing)
    columns, legend = table.columns, table.legend
    file = read(path, columns.words)
    rows = columns.rows(file)
    _check_known(file, columns, rows, legend)
    lanes = lanes_of(file, columns, rows, times_of(file, columns.time).steps(legend.calendar), legend.calendar)
    ahead = table.horizon if labeled else 0
    short = min(lanes, key=lambda lane: len(lane.values))
    if len(short.values) <= ahead:
        raise DataError(
            f"{path}: to compare a forecast of {counted(ahead, 'step')} with what came, a series needs more steps; "
            f"{short.name!r} has {len(short.values)}"
        )
    say_unknown(table.covariates.unknown(file), f"{path}, ")
    whole = table.batch(lanes, file)
    origins = whole.lengths - ahead
    given = origins.clamp_max(table.lookback)
    width = int(given.max()) + ahead
    beyond = 0 if whole.covariates is None else max(0, whole.covariates.shape[1] - int(origins.min()) - ahead)
    assert whole.times is not None
    return Series(
        steps_from(whole.x, origins - given, width), given + ahead, given,
        None if whole.covariates is None else _reaching(whole.covariates, origins - given, width + beyond),
        whole.statics, steps_from(whole.times, origins - given, width), legend=legend,
    )  # fmt: skip


def _reaching(covariates: torch.Tensor, starts: torch.Tensor, steps: int) -> torch.Tensor:
    """So many steps of covariates from each start on, NaN beyond those that are there."""
    longer = torch.nn.functional.pad(covariates, (0, 0, 0, 1), value=torch.nan)
    return steps_from(longer, starts, steps)


def _fit(
    file: CsvFile, columns: Columns, lanes: list[Lane], calendar: Calendar, horizon: int, lookback: int, raw: bool,
    held_out: int,
) -> SeriesTable:  # fmt: skip
    """The preprocessing, fitted on what comes before so many horizons that are held out."""
    old = [len(lane.values) - held_out * horizon for lane in lanes]
    means, scales = zip(
        *(_units(lane.name, lane.values[:end], raw) for lane, end in zip(lanes, old, strict=True)), strict=True
    )
    past = file.rows(np.concatenate([lane.rows[:end] for lane, end in zip(lanes, old, strict=True)]))
    covariates = Table(
        tuple(
            Number.fit(past, name) if file.column(name).numeric else Category.fit(file, name)
            for name in columns.covariates
        ),
        None,
    )
    legend = _legend(
        columns, covariates, calendar, tuple(lane.name for lane in lanes), columns.features, means, scales,
        calendar.cycles(max(old)),
    )  # fmt: skip
    return SeriesTable(columns, covariates, legend, horizon, lookback)


def _legend(
    columns: Columns, covariates: Table, calendar: Calendar, names: tuple[str, ...], features: tuple[str, ...],
    means: Any, scales: Any, cycles: tuple[Any, ...],
) -> SeriesLegend:  # fmt: skip
    known = covariates.sizes()["features"]
    return SeriesLegend(
        columns.series or "series", columns.time, names, features, means, scales, calendar,
        columns.covariates, known, cycles,
    )  # fmt: skip


def _units(name: str, values: Values, raw: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the standard deviation of each feature of a series; of a constant one the latter is 1."""
    features = values.shape[1]
    bare = np.isnan(values).all(0)
    if bare.any():
        raise DataError(f"the series {name!r} has no value to learn from before what is held out; take it out")
    if raw:
        return (0.0,) * features, (1.0,) * features
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is seen in what comes out
        means, spread = np.nanmean(values, 0), np.nanstd(values, 0)
        constant = spread <= ROUNDING * np.nanmax(np.abs(values), 0)
    return tuple(means.tolist()), tuple(np.where(constant, 1.0, spread).tolist())


def _lengths(path: Path, reading: Reading) -> tuple[int, int]:
    """The horizon and the steps that are given, if they are asked for."""
    horizon = reading.get("horizon")
    if reading.get("time") is None:
        raise UsageError(f"which column of {path} says when its steps are? Name it by --time")
    if horizon is None:
        raise UsageError(f"how many steps of the series in {path} are to be forecast at a time? Say so by --horizon")
    asked = reading.get("lookback")
    for name, value in (("horizon", horizon), ("lookback", 1 if asked is None else asked)):
        if not isinstance(value, int) or value < 1:
            raise UsageError(f"the {name} is a whole number of steps, at least 1; got {value!r}")
    return horizon, LOOKBACK * horizon if asked is None else asked


def _read(path: Path, reading: Reading) -> CsvFile:
    return read(path, [reading.get("time"), reading.get("series")])


def _remarks(file: CsvFile, table: SeriesTable, lanes: list[Lane], origins: int) -> Iterator[str]:
    """What the series are, what of them is held out, and which columns are not read."""
    columns, calendar = table.columns, table.legend.calendar
    lengths = [len(lane.values) for lane in lanes]
    many = f"{counted(len(lanes), 'time series', ',', 'time series')} of {min(lengths):,}"
    most = f" to {max(lengths):,}" if max(lengths) > min(lengths) else ""
    first = min(lane.first for lane in lanes)
    last = max(lane.first + length for lane, length in zip(lanes, lengths, strict=True)) - 1
    held_out = origins * table.horizon
    yield (
        f"{many}{most} steps, {calendar.stride} apart, from {calendar.text(first)} to {calendar.text(last)}; the last "
        f"{held_out} of each are for the test, the {held_out} before them for validation."
    )
    missing = sum(int(np.isnan(lane.values).sum()) for lane in lanes)
    if missing:
        yield f"{counted(missing, 'value is', ',', 'values are')} missing, and neither read nor predicted."
    if table.legend.cycles:
        yield f"The phases of the {' and the '.join(table.legend.cycles)} are covariates."
    named = {columns.time, columns.series, *columns.targets, *columns.covariates}
    left = [name for name in file.columns if name not in named]
    if left and columns.targets:
        yield (
            f"Not read: {listed(left)}; --covariates takes columns that are known of the steps to come, --target "
            "others to forecast."
        )


def _check_long_enough(path: Path, lanes: list[Lane], horizon: int, lookback: int) -> None:
    """Refuse series too short to train on, to validate and to test, all of them at once."""
    needed = lookback + 3 * horizon
    short = sorted((lane for lane in lanes if len(lane.values) < needed), key=lambda lane: len(lane.values))
    if short:
        least = len(short[0].values)
        raise DataError(
            f"{path}: to train, validate and test, a series needs {needed} steps, {lookback} to be given and three "
            f"times the horizon of {horizon}; {len(short)} of {len(lanes)} have fewer ({short[0].name!r}: {least}): "
            "take them out, or choose a smaller --horizon or --lookback"
        )


def _check_known(file: CsvFile, columns: Columns, rows: Mapping[str, NDArray[np.int64]], legend: SeriesLegend) -> None:
    """Refuse a series that the model does not know."""
    known = {*legend.names}
    strange = next((name for name in rows if name not in known), None)
    if strange is None:
        return
    problem = f"the series {strange!r} is not among the {len(legend.names)} of the training; take it out"
    if columns.series is None:
        raise DataError(f"{file.path}: {problem}")
    raise file.wrong(int(rows[strange][0]), columns.series, problem)


def _origins(lanes: list[Lane], horizon: int) -> int:
    """How many forecast origins of each series are held out for the validation, and how many for the test."""
    room = int(LARGEST_SHARE * min(len(lane.values) for lane in lanes) / horizon)
    return max(1, min(math.ceil(HELD_OUT_WINDOWS / len(lanes)), room))


def _every(lanes: list[Lane], horizon: int, lookback: int, held_out: int) -> int:
    """The steps from one window of the training to the next."""
    windows = sum(len(lane.values) - lookback - (1 + held_out) * horizon + 1 for lane in lanes)
    every = math.ceil(windows / MOST_WINDOWS)
    while math.gcd(every, SEASONS) > 1:
        every += 1
    return every


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    return is_csv(path) and not OF_SERIES.isdisjoint(reading)


SERIES_FILE = FileKind(
    "series",
    _recognizes,
    load,
    apply,
    takes=TAKES,
    forms={RAW: "a CSV file, whose target may be left as it is"},
)
