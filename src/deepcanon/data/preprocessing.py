"""Saved preprocessing: the schema of what data keep as JSON, so that new rows are treated as those of the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from deepcanon.core import DeepcanonError
from deepcanon.data.tables.table import Table
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


class CategoryColumn(TypedDict):
    """A column of categories of a table."""

    kind: Literal["category"]
    name: str
    values: Annotated[list[str], Field(min_length=1)]


TableColumn = Annotated[NumberColumn | CategoryColumn, Field(discriminator="kind")]


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


class SavedSpecial(TypedDict):
    """A tokenizer with special tokens before its own."""

    kind: Literal["special"]
    special: list[Literal[tuple(SIGNS)]]  # type: ignore[valid-type]
    tokenizer: SavedPlain


SavedPlain = Annotated[SavedBytes | SavedTokens | SavedBPE, Field(discriminator="kind")]
SavedTokenizer = Annotated[SavedBytes | SavedTokens | SavedBPE | SavedSpecial, Field(discriminator="kind")]


class Preprocessing(TypedDict, total=False):
    """The preprocessing of a data set; which parts it has depends on the kind of the data."""

    form: str
    levels: Annotated[int, Field(ge=2, le=2**16)]
    columns: list[TableColumn] | list[str]
    target: TableColumn | None
    ratings: Count
    classes: list[str]
    shape: list[Count]
    size: Count
    tokenizer: SavedTokenizer
    target_tokenizer: SavedTokenizer


class SavedData(TypedDict):
    """The description of a data set, kept with a model that has learned from it."""

    name: str
    kind: str
    source: str
    target: str | None
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
        for names, part in (("vocabulary", "tokenizer"), ("target_vocabulary", "target_tokenizer")):
            if part in saved and _vocabulary(saved[part]) != tuple(data.get(names, ())):
                return f"the {part.replace('_', ' ')} has other tokens than the {names.replace('_', ' ')}"
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
    except DeepcanonError as error:
        return str(error)
    return ""


def _vocabulary(saved: Mapping[str, Any]) -> Sequence[str]:
    return tokenizer_of((), {"tokenizer": saved}).vocabulary
