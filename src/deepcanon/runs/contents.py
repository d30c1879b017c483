"""Schemas of the files of a run, to which all that is read from them is held."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from deepcanon.core import CheckpointError, UsageError
from deepcanon.core.files import read_sealed
from deepcanon.core.stored import held_to
from deepcanon.data.dataset import GIVES
from deepcanon.data.preprocessing import SavedData, contradiction

NotNegative = Annotated[int, Field(ge=0, le=2**62)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Scores = dict[str, float | None]

MOST_MANIFEST = 2**16
"""The most bytes of a manifest, which names two files."""


class SavedModel(TypedDict):
    """A model by its name and arguments, which may hold further models."""

    model: str
    arguments: dict[str, Any]


class SavedOrigin(TypedDict):
    """Where a class outside the catalogue came from; nothing of it is ever imported, it is for the reader alone."""

    module: NotRequired[str]
    file: NotRequired[str]
    sha256: NotRequired[Sha256]


class Environment(TypedDict):
    """The versions and numbers that, besides the settings, decide the last bits of a result."""

    deepcanon: str
    torch: str
    python: str
    threads: NotNegative
    processes: NotNegative


class Results(TypedDict):
    """The results of a finished run."""

    steps: NotNegative
    seconds: Seconds
    train: Scores
    valid: Scores
    test: Scores
    baseline: NotRequired[dict[str, Any] | None]
    by_class: NotRequired[dict[str, list[dict[str, Any]]]]
    says: NotRequired[list[str]]
    course: NotRequired[list[str]]


class LogEnd(TypedDict):
    """The end of the log of a finished run: the number of its lines, and the running checksum of the last."""

    lines: NotNegative
    running: NotNegative


class Format(TypedDict):
    """The one entry that a file of any version has."""

    format: int


class RunInfo(TypedDict):
    """The content of ``run.json``."""

    format: int
    status: Literal["running", "stopped", "finished", "diverged"]
    created: str
    model: SavedModel
    classes: NotRequired[dict[str, SavedOrigin]]
    parameters: NotNegative
    dtype: NotRequired[Literal["float16", "bfloat16", "float32", "float64"] | None]
    data: SavedData
    settings: dict[str, Any]
    environment: Environment
    weights: NotRequired[str]
    results: NotRequired[Results]
    sha256: NotRequired[Sha256]
    log: NotRequired[LogEnd]
    fallbacks: NotRequired[list[str]]
    baselines: NotRequired[dict[str, float]]


class ListedFile(TypedDict):
    """A file of a checkpoint, as its manifest names it."""

    bytes: NotNegative
    sha256: Sha256


Files = TypedDict("Files", {"state.safetensors": ListedFile, "state.json": ListedFile})


class Manifest(TypedDict):
    """The content of the manifest of a checkpoint."""

    files: Files


class State(TypedDict):
    """The state of a training in a checkpoint."""

    step: NotNegative
    seconds: Seconds
    stop_reason: str
    model: dict[str, Any]
    average: list[Any]
    players: list[dict[str, Any]]
    observers: dict[str, dict[str, Any]]
    random: list[dict[str, Any]]


def read_info(path: Path, newest: int) -> dict[str, Any]:
    """The content of a ``run.json``, if it is whole, as its schema says, and without a contradiction in itself."""
    made_by: dict[str, Any] = read_sealed(path, Format)
    if made_by["format"] > newest:
        raise UsageError(f"{path.parent} was written by a newer version of deepcanon (format {made_by['format']})")
    info: dict[str, Any] = held_to(RunInfo, made_by, path)
    wrong = contradiction(info["data"])
    if info["data"]["kind"] not in GIVES:
        wrong = f"there are no data of the kind {info['data']['kind']!r}"
    if info["status"] == "finished" and not {"results", "weights", "sha256"} <= info.keys():
        wrong = "it is finished and has no results"
    if wrong:
        raise CheckpointError(f"{path} contradicts itself: {wrong}"[:300])
    return info
