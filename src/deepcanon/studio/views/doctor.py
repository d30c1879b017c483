"""The doctor's verdicts on a run, with their evidence, and the training that follows one advice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from deepcanon.core import UsageError
from deepcanon.core.settings import listed_settings
from deepcanon.core.stored import MOST_JSON, held_to, read_file
from deepcanon.diagnosis.doctor import checks
from deepcanon.runs.folder import RunFolder
from deepcanon.studio.plain import is_plain

FOLDER = "looks"
"""Where the doctor's report of a run is, in the run's own folder."""
FILE = "doctor.json"
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")
"""Letters that the folder of a new run cannot have, though one of a user's may."""


class Verdict(TypedDict):
    """One diagnosis, as the doctor writes it."""

    check: str
    grade: str
    cause: str
    where: str
    evidence: dict[str, Any]
    advice: str
    confirmed_by: str
    margin: float | None
    change: dict[str, Any]
    explains: list[str]


class Verdicts(TypedDict):
    """The content of ``doctor.json``."""

    subject: str
    data: str
    healthy: bool
    faults: list[Verdict]
    suspicions: list[Verdict]
    notes: list[Verdict]
    passed: dict[str, dict[str, Any]]
    skipped: dict[str, str]
    seconds: float


def examined(run: Path) -> dict[str, Any] | None:
    """The verdicts on a run, each with what following it would change; None where it was not examined yet."""
    path = run / FOLDER / FILE
    if path.parent.is_symlink() or not is_plain(path):
        return None
    found: Verdicts = _read(path)
    settings = RunFolder.open(run).info["settings"]
    weights = run / "model.safetensors"
    explained = {check.name: check.explanation.partition("\n")[0] for check in checks()}
    return {
        **found,
        "verdicts": [
            {**each, "meaning": explained.get(each["check"], ""), "changes": changes(each["change"], settings)}
            for grade in ("faults", "suspicions", "notes")
            for each in found[grade]
        ],
        "meanings": {name: explained.get(name, "") for name in (*found["passed"], *found["skipped"])},
        "stale": weights.is_file() and weights.stat().st_mtime > path.stat().st_mtime,
    }


def changes(change: Mapping[str, Any], settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A change setting by setting, with what it is in the run; only settings that a training has."""
    known = listed_settings()
    return [
        {"setting": name, "before": settings.get(name), "after": value}
        for name, value in change.items()
        if name in known and settings.get(name) != value
    ]


def training_after(run: Path, verdict: int) -> dict[str, Any]:
    """The training that follows an advice: the run's own model, data and settings, but for what the advice changes."""
    found = examined(run)
    if found is None:
        raise UsageError("this run was not examined yet: have the doctor examine it first")
    if not 0 <= verdict < len(found["verdicts"]):
        raise UsageError(f"there are {len(found['verdicts'])} verdicts, numbered from 0 (got {verdict})")
    chosen = found["verdicts"][verdict]
    if not chosen["changes"]:
        raise UsageError(f"the advice on {chosen['cause']!r} is not a change of settings, so it is yours to make")
    info = RunFolder.open(run).info
    settings = {**info["settings"], **{each["setting"]: each["after"] for each in chosen["changes"]}}
    if settings.get("steps") is not None:  # they stand in place of the epochs
        settings.pop("epochs", None)
    return {
        "model": info["model"]["model"],
        "arguments": _options(info["model"]["arguments"], frozenset(info["data"]["sizes"])),
        "settings": _options(settings),
        "data": info["data"]["name"],
        "reading": _options(info["data"]["reading"]),
        "folder": f"{_PLAIN.sub('-', run.name).lstrip('-.')[:70] or 'run'}-again",
    }


def _options(given: Mapping[str, Any], left_out: frozenset[str] = frozenset(), prefix: str = "") -> dict[str, Any]:
    """Values as the options of a form: models inside by name, nothing for what is None, empty or from the data."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or value == [] or name in left_out:
            continue
        if isinstance(value, Mapping):
            found[f"{prefix}{name}"] = value["model"]
            found |= _options(value["arguments"], left_out, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = ",".join(map(str, value)) if isinstance(value, list) else value
    return found


def _read(path: Path) -> Verdicts:
    try:
        content = json.loads(read_file(path, MOST_JSON))
    except ValueError as error:
        raise UsageError(f"{FOLDER}/{FILE} of this run is damaged: {error}") from error
    found: Verdicts = held_to(Verdicts, content, path)
    return found
