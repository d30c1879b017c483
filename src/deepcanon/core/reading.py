"""Reading options, listed once: what the columns of a file are; loading, runs and commands take them from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from deepcanon.core.errors import UsageError
from deepcanon.core.hints import did_you_mean
from deepcanon.core.settings import Setting, Settings


class Reading(TypedDict, total=False):
    """The options by which a file is read; which of these it takes depends on what it holds."""

    target: Annotated[str | None, Setting("The column of a CSV file that is to be predicted.", None)]
    nodes: Annotated[str | None, Setting("The CSV file of a graph's nodes, whose edges are the data.", None)]
    split: Annotated[str | None, Setting("The column that says whether a node is to train, valid or test.", None)]
    column: Annotated[
        str | tuple[str, ...] | list[str] | dict[str, str] | None,
        Setting("What a column of a table is: NAME=number, =category, =date or =drop.", None, True),
    ]
    drop: Annotated[
        str | tuple[str, ...] | list[str] | None,
        Setting("Columns of a table that are left out, with commas between them.", None),
    ]
    votes: Annotated[
        str | Sequence[str] | None,
        Setting("The columns of a table with votes of labeling functions for the classes of its target.", None),
    ]
    group: Annotated[
        str | None, Setting("The column of a table whose equal values stay together in one split: patient.", None)
    ]
    split_by: Annotated[
        str | None, Setting("The column of a table by which its rows are split: the first train, the last test.", None)
    ]
    time: Annotated[str | None, Setting("The column of a CSV file of time series that says when its steps are.", None)]
    series: Annotated[str | None, Setting("The column that says which of several time series a row is of.", None)]
    covariates: Annotated[
        str | Sequence[str] | None,
        Setting("The columns of time series that are known of steps to come: price,offer", None),
    ]
    horizon: Annotated[int | None, Setting("How many steps of time series are forecast at a time.", None)]
    lookback: Annotated[int | None, Setting("How many steps before these are given; by default, two horizons.", None)]
    text: Annotated[
        str | None, Setting("The column of a CSV file that holds texts: sources, or what is labeled.", None)
    ]


class TrainingOptions(Settings, Reading, total=False):
    """The settings of a training, and how the file is read that it learns from."""


def reading_of(options: Mapping[str, Any]) -> Reading:
    """The reading options among these that are given.

    >>> reading_of({"target": "price", "epochs": 3})
    {'target': 'price'}
    """
    known = Reading.__annotations__
    return cast(Reading, {name: value for name, value in options.items() if name in known and value is not None})


def check_reading(reading: Mapping[str, Any]) -> None:
    """Refuse a name that is not a reading option."""
    for name in reading:
        if name not in Reading.__annotations__:
            raise UsageError(f"data are not read by a {name!r}; {did_you_mean(name, Reading.__annotations__)}")


def is_frame(data: Any) -> bool:
    """Whether data in memory have named columns: a data frame, an Arrow table, a data set of Hugging Face.

    >>> is_frame([[1.0, 2.0]])
    False
    """
    if isinstance(data, type | Mapping):
        return False
    of_hugging_face = all(hasattr(data, name) for name in ("with_format", "column_names", "__getitem__"))
    return of_hugging_face or hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__")


def check_names_file(reading: Mapping[str, Any], data: Any) -> None:
    """Refuse reading options where no file or folder is named, nor columns of a data frame."""
    for name, value in reading.items():
        if not isinstance(data, str | Path) and not is_frame(data):
            raise UsageError(
                f"the {name} {value!r} belongs to which file? Name a file as the data, or give a data frame"
            )


def reading_in_words(reading: Mapping[str, Any]) -> list[str]:
    """The options of the command line that read a file so; several names have commas between them.

    >>> reading_in_words({"target": "price"})
    ['--target', 'price']
    """
    given = reading_of(reading).items()
    return [
        word
        for name, value in given
        for word in (f"--{name.replace('_', '-')}", value if isinstance(value, str) else _joined(value))
    ]


def _joined(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{name}={kind}" for name, kind in value.items()]
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def names_in(value: str | Sequence[str]) -> tuple[str, ...]:
    """Several names: a sequence of them, or a text with commas between them.

    >>> names_in("price, age"), names_in(["a,b"])
    (('price', 'age'), ('a,b',))
    """
    return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else tuple(value)
