"""Saved preprocessing: the schema of what data keep as JSON, so that new rows are treated as those of the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from deepcanon.core import DeepcanonError
from deepcanon.core.calendar import DAY, Cycle, Pattern, Unit
from deepcanon.core.reading import Reading
from deepcanon.data.series_file import SeriesTable
from deepcanon.data.tables.date_texts import ISO, WRITTEN
from deepcanon.data.tables.table import Table
from deepcanon.data.tables.table_columns import Cycle as CycleOfDates
from deepcanon.data.text.special import SIGNS
from deepcanon.data.text.tokenizers import tokenizer_of

Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=2**31)]


class NumberColumn(TypedDict):
    """A column of numbers of a table."""

    kind: Literal["number"]
    name: str
    median: Finite
    mean: Finite
    std: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    indicator: bool
    bend: NotRequired[Annotated[float, Field(ge=0, allow_inf_nan=False)]]


class DateColumn(TypedDict):
    """A column of dates of a table."""

    kind: Literal["date"]
    name: str
    median: Finite
    mean: Finite
    std: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    indicator: bool
    form: Literal[(ISO, *WRITTEN)]  # type: ignore[valid-type]
    cycles: list[CycleOfDates]
    whole: NotRequired[bool]


class CategoryColumn(TypedDict):
    """A column of categories of a table."""

    kind: Literal["category"]
    name: str
    values: Annotated[list[str], Field(min_length=1)]
    other: NotRequired[Count]


class DroppedColumn(TypedDict):
    """A column of a table of which no feature is made."""

    name: str
    why: str
    names_rows: bool


TableColumn = Annotated[NumberColumn | CategoryColumn | DateColumn, Field(discriminator="kind")]


class SavedCalendar(TypedDict):
    """The calendar of time series."""

    unit: Unit
    every: Annotated[int, Field(ge=1, le=2**62)]
    start: Annotated[int, Field(ge=-(2**62), le=2**62)]
    day: Annotated[int, Field(ge=1, le=31)]
    clock: Annotated[int, Field(ge=0, lt=DAY)]
    pattern: Pattern
    zone: Annotated[str, Field(pattern=r"^(Z|[+-][01]\d(:?[0-5]\d)?)?$")]


class SavedLegend(TypedDict):
    """The legend of time series: names, times and units."""

    time: str
    names: Annotated[list[str], Field(min_length=1)]
    features: Annotated[list[str], Field(min_length=1)]
    means: list[list[Finite]]
    scales: list[list[Annotated[float, Field(gt=0, allow_inf_nan=False)]]]
    calendar: SavedCalendar
    cycles: list[Cycle]


class SavedColumns(TypedDict):
    """The columns of a file of time series by their meaning."""

    time: str
    series: str | None
    targets: list[str]
    covariates: list[str]


class SavedSeries(TypedDict):
    """The preprocessing of time series from a file."""

    columns: SavedColumns
    covariates: list[TableColumn]
    legend: SavedLegend
    horizon: Count
    lookback: Count


class SavedBytes(TypedDict):
    """The tokenizer of bytes."""

    kind: Literal["bytes"]


class SavedTokens(TypedDict):
    """The tokenizer of characters or words."""

    kind: Literal["characters", "words"]
    vocabulary: Annotated[list[str], Field(min_length=1)]


class SavedBPE(TypedDict):
    """The tokenizer of byte pairs."""

    kind: Literal["bpe"]
    tokens: list[str]
    merges: list[Annotated[list[str], Field(min_length=2, max_length=2)]]


class SavedSentinels(TypedDict):
    """A tokenizer with sentinels after its own tokens."""

    kind: Literal["sentinels"]
    count: Annotated[int, Field(ge=1, le=2**20)]
    tokenizer: SavedBytes | SavedTokens | SavedBPE


class SavedSpecial(TypedDict):
    """A tokenizer with special tokens before its own."""

    kind: Literal["special"]
    special: list[Literal[tuple(SIGNS)]]  # type: ignore[valid-type]
    tokenizer: SavedPlain


SavedPlain = Annotated[SavedBytes | SavedTokens | SavedBPE | SavedSentinels, Field(discriminator="kind")]
SavedTokenizer = Annotated[SavedBytes | SavedTokens | SavedBPE | SavedSpecial, Field(discriminator="kind")]


class SavedGraph(TypedDict):
    """The columns of a graph's nodes and edges, and the classes of its nodes, or of many graphs."""

    nodes: list[TableColumn]
    edges: list[TableColumn] | None
    weighted: bool
    target: CategoryColumn | None
    identity: str


class Preprocessing(TypedDict, total=False):
    """The preprocessing of a data set; which parts it has depends on the kind of the data."""

    form: str
    levels: Annotated[int, Field(ge=2, le=2**16)]
    columns: list[TableColumn] | list[str]
    target: TableColumn | None
    dropped: list[DroppedColumn]
    ratings: Count
    series: SavedSeries
    classes: list[str]
    shape: list[Count]
    size: Count
    graph: SavedGraph
    texts: list[str]
    tokenizer: SavedTokenizer
    target_tokenizer: SavedTokenizer


class SavedData(TypedDict):
    """The description of a data set, kept with a model that has learned from it."""

    name: str
    kind: str
    source: str
    target: str | None
    reading: NotRequired[Reading]
    sizes: dict[str, Annotated[int, Field(ge=0, le=2**40)]]
    shape: list[Annotated[int, Field(ge=0, le=2**40)]]
    labels: list[str]
    vocabulary: list[str]
    target_vocabulary: NotRequired[list[str]]
    preprocessing: Preprocessing
    fingerprint: str


def contradiction(data: Mapping[str, Any]) -> str:
    """What does not go together in the description of data that is as its schema says; empty if all does."""
    sizes, saved = data["sizes"], data["preprocessing"]
    for names, size in (("labels", "classes"), ("vocabulary", "vocab"), ("target_vocabulary", "target_vocab")):
        there = data.get(names, [])
        if there and size in sizes and len(there) != sizes[size]:
            return f"there are {len(there)} {names.replace('_', ' ')} and {sizes[size]} {size}"
    try:
        if "texts" in saved and (wrong := _wrong_texts(data["kind"], saved)):
            return wrong
        for names, part in (("vocabulary", "tokenizer"), ("target_vocabulary", "target_tokenizer")):
            if part in saved and _vocabulary(saved[part]) != tuple(data.get(names, ())):
                return f"the {part.replace('_', ' ')} has other tokens than the {names.replace('_', ' ')}"
        if columns := saved.get("graph", {}).get("nodes"):
            features = Table.from_json({"columns": columns}).sizes()["features"]
            return "" if features == sizes.get("features") else f"the nodes have {features} features"
        if data["kind"] == "table" and "columns" in saved and isinstance(next(iter(saved["columns"]), {}), dict):
            found = Table.from_json(saved).sizes()
            return next(
                (
                    f"the table has {n} {name}, not {sizes.get(name)}"
                    for name, n in found.items()
                    if sizes.get(name) != n
                ),
                "",
            )
        if "series" in saved:
            return _series_contradiction(sizes, saved)
    except DeepcanonError as error:
        return str(error)
    return ""


def _series_contradiction(sizes: Mapping[str, int], saved: Mapping[str, Any]) -> str:
    table = SeriesTable.from_json(saved)
    legend, known = table.legend, (column["name"] for column in saved["series"]["covariates"])
    if tuple(known) != table.columns.covariates or legend.features != table.columns.features:
        return "the columns of the time series are not those of their preprocessing"
    shape = (len(legend.names), len(legend.features))
    for name, rows in (("means", legend.means), ("scales", legend.scales)):
        if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
            return f"the {name} of the time series are not {shape[1]} for each of {shape[0]}"
    if (legend.calendar.unit == "number") != (legend.calendar.pattern == ""):
        return "the calendar of the time series does not say how its dates are written"
    if legend.cycles and legend.calendar.unit == "number":
        return "the time series have cycles of dates, and their times are whole numbers"
    found = {name: sizes[name] for name in ("features", "covariates", "statics") if sizes.get(name)}
    return "" if found == table.sizes() else f"the time series have {table.sizes()}, not {found}"


def _wrong_texts(kind: str, saved: Mapping[str, Any]) -> str:
    """What the preprocessing of texts in the columns of a file lacks; empty if nothing."""
    pairs = kind == "pairs"
    for part, needed in (("tokenizer", {"padding"}), ("target_tokenizer", {"padding", "begin", "end"})):
        if (pairs or part == "tokenizer") and not needed <= set(saved.get(part, {}).get("special", ())):
            return f"the {part.replace('_', ' ')} of texts lacks the special tokens {', '.join(sorted(needed))}"
    if len(saved["texts"]) not in ((0, 2) if pairs else (1,)):
        return f"there are {len(saved['texts'])} columns of texts"
    return "" if pairs or saved.get("target") else "texts with labels have no target"


def _vocabulary(saved: Mapping[str, Any]) -> Sequence[str]:
    return tokenizer_of((), {"tokenizer": saved}).vocabulary
