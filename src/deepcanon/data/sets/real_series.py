"""Published time series: M4 weekly, exchange rates, and the load and oil temperature of a transformer (ETTh1)."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, Series
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import Remote, RemoteFile, content_of
from deepcanon.data.entry import Entry
from deepcanon.data.time_series import split_by_time, windows

FOLDER = "timeseries"
WEEKS, WEEKLY = 52, 13
"""The weeks that are given and those that are forecast, as many as in the competition."""
DAYS, DAILY, DAILY_TESTS = 90, 30, 5
"""The business days that are given and those that are forecast, from so many origins one after the other."""
HOURS, HOURLY, MONTH = 96, 24, 30 * 24
EVERY = {"m4-weekly": 53, "exchange-rate": 17, "etth1": 5}
"""The steps from one window of the training to the next; no divisor of a season."""

Values = NDArray[np.float64]


def load_m4(entry: Entry) -> Dataset[Series]:
    """The series of the competition; the published test values are predicted in the test."""
    rows = m4_rows(entry)
    lengths = torch.tensor([len(row) for row in rows])
    x = torch.zeros(len(rows), int(lengths.max()), 1)
    for row, values in enumerate(rows):
        x[row, : len(values), 0] = torch.from_numpy(values)
    return entry.dataset(*split_by_time(Series(x, lengths, lengths), WEEKS, WEEKLY, EVERY[entry.name]))


def m4_rows(entry: Entry) -> list[Values]:
    """The whole series, the published test values at their ends."""
    train, test = (_quoted_rows(path) for path in entry.remote.fetch())
    if train.keys() != test.keys() or not train:
        raise DataError(f"{entry.name}: the training and the test file have other series")
    return [np.concatenate([values, test[name]]) for name, values in train.items()]


def load_exchange(entry: Entry) -> Dataset[Series]:
    """A series for each currency; the last horizons are predicted in the test, and as many before in the validation."""
    x = torch.from_numpy(np.stack(exchange_rows(entry))).unsqueeze(2).float()
    full = torch.full((len(x),), x.shape[1])
    series = Series(x, full, full, statics=torch.arange(len(x)).unsqueeze(1))
    return entry.dataset(*split_by_time(series, DAYS, DAILY, EVERY[entry.name], tests=DAILY_TESTS, valids=DAILY_TESTS))


def exchange_rows(entry: Entry) -> list[Values]:
    """The whole series of the currencies."""
    (path,) = entry.remote.fetch()
    return list(_table(path, content_of(path).decode().splitlines()).T)


def load_ett(entry: Entry) -> Dataset[Series]:
    """One series of all values, in the split that is usual: a year, four months, and four months of 30 days each."""
    (path,) = entry.remote.fetch()
    lines = [line.partition(",")[2] for line in content_of(path).decode().splitlines()[1:]]
    x = torch.from_numpy(_table(path, lines)).unsqueeze(0).float()
    ends = [12 * MONTH, 16 * MONTH, 20 * MONTH]
    if x.shape[1] < ends[-1]:
        raise DataError(f"{path} has {x.shape[1]} hours; {ends[-1]} are needed")
    known = _phases(x.shape[1]).unsqueeze(0)  # the first hour is one after midnight on a Friday
    starts = [0, *(end - HOURS for end in ends[:-1])]
    parts = [
        Series(x[:, start:end], torch.tensor([end - start]), torch.tensor([end - start]), known[:, start:end])
        for start, end in zip(starts, ends, strict=True)
    ]
    every = [EVERY[entry.name], HOURLY, HOURLY]
    return entry.dataset(*(windows(part, HOURS, HOURLY, gap) for part, gap in zip(parts, every, strict=True)))


def _phases(hours: int) -> Tensor:
    """The phases of the day and of the week, (hours, 4)."""
    hour = torch.arange(hours)
    angles = [2 * math.pi * (hour + 4 * 24) / period for period in (24, 7 * 24)]
    return torch.stack([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], 1)


def _quoted_rows(path: Path) -> dict[str, Values]:
    """The rows of a CSV file of series, each with its name first and as many numbers as it has."""
    _, *rows = csv.reader(content_of(path).decode().splitlines())
    try:
        return {name: np.array([float(cell) for cell in cells if cell], dtype=np.float64) for name, *cells in rows}
    except ValueError as error:
        raise DataError(f"{path} holds something that is not a number: {error}") from error


def _table(path: Path, lines: list[str]) -> Values:
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise DataError(f"{path} holds something that is not a number: {error}") from error


M4_WEEKLY = Entry(
    name="m4-weekly",
    kind="series",
    shape=(WEEKS + WEEKLY, 1),
    sizes={"features": 1},
    counts=(6614, 359, 359),
    source="the 359 weekly series of the M4 competition (Makridakis et al., 2020), "
    "https://doi.org/10.1016/j.ijforecast.2019.04.014",
    load=load_m4,
    remote=Remote(
        folder=FOLDER,
        mirrors=(
            "https://raw.githubusercontent.com/Mcompetitions/M4-methods/master/Dataset/",
            "https://cdn.jsdelivr.net/gh/Mcompetitions/M4-methods@master/Dataset/",
        ),
        files=(
            RemoteFile(
                "m4_Weekly-train.csv", 4015067, "d478d3f6ed673e6ed3c2cb0fbed5425f72eedd51318ebebeb0b5ecfcefc37714",
                at="Train/Weekly-train.csv",
            ),
            RemoteFile(
                "m4_Weekly-test.csv", 44247, "3b2bc4be8e636e802260dcd843ca3c5da40536a1fbe1ecb3229a97dae4f44688",
                at="Test/Weekly-test.csv",
            ),
        ),
    ),
)  # fmt: skip

EXCHANGE_RATE = Entry(
    name="exchange-rate",
    kind="series",
    shape=(DAYS + DAILY, 1),
    sizes={"features": 1, "statics": 8},
    counts=(3376, 40, 40),
    source="exchange rates of eight currencies, each business day from 1990 to 2016 (Lai et al., 2018), "
    "https://arxiv.org/abs/1703.07015",
    load=load_exchange,
    remote=Remote(
        folder=FOLDER,
        mirrors=(
            "https://raw.githubusercontent.com/laiguokun/multivariate-time-series-data/master/exchange_rate/",
            "https://cdn.jsdelivr.net/gh/laiguokun/multivariate-time-series-data@master/exchange_rate/",
        ),
        files=(
            RemoteFile(
                "exchange_rate.txt.gz", 177142, "6a4fbb561dcdee43f071a83badbeec9223a335552278348656738b556f1c2e9d"
            ),
        ),
    ),
)

ETTH1 = Entry(
    name="etth1",
    kind="series",
    shape=(HOURS + HOURLY, 7),
    sizes={"features": 7, "covariates": 4},
    counts=(1705, 120, 120),
    source="hourly load and oil temperature of a power transformer (Zhou et al., 2021), "
    "https://arxiv.org/abs/2012.07436 (CC BY-ND 4.0)",
    load=load_ett,
    remote=Remote(
        folder=FOLDER,
        mirrors=(
            "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/",
            "https://cdn.jsdelivr.net/gh/zhouhaoyi/ETDataset@main/ETT-small/",
        ),
        files=(RemoteFile("ETTh1.csv", 2589657, "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066"),),
    ),
)
