"""The record of a comparison, ``compare.json``: its schema, and how it is opened, gone on with and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from deepcanon.comparison.cost import Cost
from deepcanon.comparison.differences import FILE as EXAMPLES
from deepcanon.comparison.differences import Difference
from deepcanon.comparison.measures import Measured
from deepcanon.comparison.quality import Quality
from deepcanon.comparison.support import Form
from deepcanon.core import UsageError
from deepcanon.core.files import as_json, read_sealed, seal, write_whole
from deepcanon.core.reading import Reading
from deepcanon.core.stored import held_to
from deepcanon.runs.contents import Format

FORMAT = 3
FILE = "compare.json"


class Entry(TypedDict):
    """One run: what was trained on what, where it is, and what came of it, which is a measure or an error.

    ``model`` is its name in the catalogue, None of a baseline that is not in it. ``examples`` is the number of training
    examples where these are a part of all, for a learning curve.
    """

    label: str
    model: str | None
    baseline: bool
    form: Form
    data: str
    seed: int
    examples: int | None
    run: str
    error: str | None
    measured: Measured | None


class Comparison(TypedDict):
    """The content of ``compare.json``."""

    format: int
    status: str
    deepcanon: str
    torch: str
    threads: int
    created: str
    request: dict[str, Any]
    chosen: list[str]
    """Why these models were chosen, where none were named."""
    data: dict[str, Any]
    unsuitable: dict[str, str]
    """What cannot be trained on these data, and why."""
    reference: dict[str, Quality | None]
    """For each form, what training examples score in place of samples."""
    runs: list[Entry]
    differences: list[Difference]
    """Of every two models, on the same test examples."""
    curve: list[Entry]
    """The same models trained on parts of the training split."""
    gains: list[Gain]
    """What the largest part has gained over the others, on the same test examples."""


class Gain(TypedDict):
    """The measure of a model with all training examples minus that with fewer, with its interval."""

    label: str
    examples: int
    all: int
    difference: Difference


class Request(TypedDict):
    """The request: which models on which data, how often and for how long."""

    models: list[str]
    data: str
    reading: Reading
    seeds: int
    budget: float | None
    baselines: NotRequired[list[str]]
    cost: NotRequired[Cost | None]
    learning_curve: NotRequired[bool]


class ComparedData(TypedDict):
    """The one entry about the data by which they are known again."""

    fingerprint: str


class Before(TypedDict):
    """The part of ``compare.json`` from which a comparison is gone on with."""

    request: Request
    data: ComparedData
    reference: dict[str, Any]
    runs: list[Any]
    """What in these is not of this version, or came to no number, is measured again."""
    curve: NotRequired[list[Any]]


def opened(out: Path, request: Mapping[str, Any], fingerprint: str) -> Before | None:
    """The comparison that is in the folder, if it can be gone on with; a folder of something else is refused."""
    if not out.exists():
        return None
    if not out.is_dir():
        raise UsageError(f"{out} is a file; choose a folder")
    path = out / FILE
    if not path.is_file():
        if any(path.name != ".lock" for path in out.iterdir()):
            raise UsageError(f"{out} holds something else (it has no {FILE}); choose a new folder")
        return None
    made_by: Any = read_sealed(path, Format)
    if made_by["format"] > FORMAT:
        raise UsageError(f"{path} was written by a newer version of deepcanon")
    before: Before = held_to(Before, made_by, path)
    asked, known = before["request"], before["data"]["fingerprint"]
    for name in ("data", "reading", "budget", "epochs"):
        if asked.get(name) != request[name]:
            raise UsageError(
                f"{out} holds a comparison with {name} {asked.get(name)}, not {request[name]}; choose another folder"
            )
    if known != fingerprint:
        raise UsageError(f"the data {request['data']} have changed since {out} was begun; choose another folder")
    return before


def whole(entry: Entry, out: Path, cost: Cost | None) -> bool:
    """Whether a run was measured as runs are measured now, and what its examples contribute is there."""
    measured = entry["measured"]
    if measured is None or Measured.__annotations__.keys() - measured.keys():
        return False
    predicts = measured["predictions"] is not None or measured["targets"] is not None
    asked = None if measured["cost"] is None else measured["cost"]["of"]
    if asked != (cost if predicts else None):
        return False
    return not measured["examples"] or (out / entry["run"] / EXAMPLES).is_file()


def write(out: Path, comparison: Comparison, rest: Sequence[Entry] = ()) -> None:
    """Write the file; ``rest`` are runs known from before that have not had their turn yet."""
    there = {entry["run"] for entry in (*comparison["runs"], *comparison["curve"])}
    left = [entry for entry in rest if entry["run"] not in there]
    runs = [*comparison["runs"], *(entry for entry in left if entry["examples"] is None)]
    curve = [*comparison["curve"], *(entry for entry in left if entry["examples"] is not None)]
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / FILE, seal(as_json({**comparison, "runs": runs, "curve": curve})))
