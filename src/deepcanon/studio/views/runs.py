"""The table of runs: one row each, read off its folder without torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.core.errors import DeepcanonError, UsageError
from deepcanon.core.files import as_json, unseal, write_json
from deepcanon.core.stored import parse_json, read_file
from deepcanon.runs.folder_parts import BEGINNING
from deepcanon.studio.columns import KINDS, record_of

NOTES = "notes.json"
"""The file of a run's folder with the tags and the note that somebody wrote about it."""
MOST_TAGS, MOST_TAG, MOST_NOTE = 20, 40, 10_000
LAST_BYTES = (2**15, 2**18)
"""The bytes at the end of a log in which its last records are, as a rule, and where they are long or far apart."""
KIND = b'"kind": "%s"'
"""How a record says of which kind it is, as the trainer writes it."""


def row(folder: Path, root: Path, locks: Mapping[tuple[int, int], int]) -> dict[str, Any]:
    """What the table shows of a run; ``problem`` says what keeps it from being read. ``locks``: see ``held``."""
    process = holder(folder, locks)
    steps, epochs = last_records(folder)
    shown: dict[str, Any] = {
        "name": folder.relative_to(root).as_posix(),
        "process": process,
        "step": steps.get("step"),
        "epoch": steps.get("epoch"),
        "seconds": steps.get("seconds"),
        "loss": steps.get("loss"),
        "curves": curve_names(steps, epochs),
        "valid": epochs.get("valid", {}),
        "test": {},
        "settings": {},
        **notes_of(folder),
    }
    try:
        info = unseal(read_file(folder / "run.json"), folder / "run.json")
        status = info["status"]
        results = info.get("results", {})
        return shown | {
            "model": info["model"]["model"],
            "data": info["data"]["name"],
            "status": "interrupted" if status == "running" and process is None else status,
            "created": info["created"],
            "parameters": info["parameters"],
            "epochs": info["settings"].get("epochs"),
            "settings": settings_of(info),
            "steps": results.get("steps"),
            "test": results.get("test", {}),
            "problem": None,
        }
    except (OSError, DeepcanonError, LookupError, TypeError, AttributeError) as error:
        begun = (folder / BEGINNING).exists()
        said = "it was broken off before its first checkpoint: train it again"
        problem = str(error) if not begun else None if process else said
        status = ("beginning" if process else "broken off") if begun else "damaged"
        return shown | {"model": "", "data": "", "status": status, "problem": problem, "created": ""}


def settings_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """All that a run was asked for, as one flat table: model, its arguments, data, settings.

    >>> settings_of({"model": {"model": "mlp", "arguments": {"hidden": [64]}}, "data": {"name": "moons"},
    ...     "settings": {"lr": 0.1}})
    {'model': 'mlp', 'data': 'moons', 'hidden': '64', 'lr': 0.1}
    """
    flat: dict[str, Any] = {"model": info["model"]["model"], "data": info["data"]["name"]}
    _flatten(flat, "", info["model"]["arguments"])
    for name, value in info["settings"].items():
        flat[name] = _plain(value)
    return as_json(flat)  # type: ignore[no-any-return]


def _flatten(flat: dict[str, Any], prefix: str, arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if isinstance(value, dict) and "model" in value and isinstance(value.get("arguments"), dict):
            flat[f"{prefix}{name}"] = value["model"]
            _flatten(flat, f"{prefix}{name}.", value["arguments"])
        else:
            flat[f"{prefix}{name}"] = _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if value is None or isinstance(value, int | float | str) else json.dumps(value)


def last_records(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last record of a step and of an epoch that stand near the end of a log; empty where there is none."""
    found: dict[str, dict[str, Any]] = {}
    try:
        with (folder / "log.jsonl").open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            for most in LAST_BYTES:
                begin = max(0, size - most)
                file.seek(begin)
                end = file.read(size - begin)
                found = {kind: record for kind in KINDS if (record := _last(end, kind, whole=begin == 0)) is not None}
                if len(found) == len(KINDS) or begin == 0:
                    break
    except OSError:
        return {}, {}
    return found.get("step", {}), found.get("epoch", {})


def _last(end: bytes, kind: str, *, whole: bool) -> dict[str, Any] | None:
    """The last record of a kind at the end of a log, of which the first line may be a part and the last one torn."""
    place = end.rfind(b"\n") + 1
    while (place := end.rfind(KIND % kind.encode(), 0, place)) >= 0:
        begin = end.rfind(b"\n", 0, place) + 1
        record = record_of(end[begin : end.index(b"\n", place)]) if begin or whole else None
        if record is not None and record["kind"] == kind:
            return record
        place = begin
    return None


def curve_names(steps: Mapping[str, Any], epochs: Mapping[str, Any]) -> list[str]:
    """The names of the curves that a run has, by its last records."""
    plain = [name for name in ("loss", "lr", "grad_norm") if name in steps]
    terms = _mapping(steps.get("terms"))
    valid = _mapping(epochs.get("valid"))
    parts = [f"terms.{name}" for name in terms] if len(terms) > 1 else []  # a single term is the loss
    measured = [name for name in valid if name != "loss" or valid.get("nll") != valid["loss"]]
    return [*plain[:1], *parts, *(f"valid.{name}" for name in measured), *plain[1:]]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def held() -> dict[tuple[int, int], int]:
    """The process that holds each lock of a file, by device and inode.

    The lock of a run is never taken to see whether somebody has it: a training that begins at that moment would be
    refused. Where the system does not list its locks, no run is known to be alive.
    """
    found: dict[tuple[int, int], int] = {}
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        words = line.split()
        if len(words) >= 6 and words[1] == "FLOCK" and words[4].isdigit():
            major, minor, inode = words[5].split(":")
            found[os.makedev(int(major, 16), int(minor, 16)), int(inode)] = int(words[4])
    return found


def holder(folder: Path, locks: Mapping[tuple[int, int], int]) -> int | None:
    """The process that trains in a folder; none if nobody does."""
    try:
        status = (folder / ".lock").stat()
    except OSError:
        return None
    return locks.get((status.st_dev, status.st_ino))


def notes_of(folder: Path) -> dict[str, Any]:
    """The tags and the note of a run."""
    try:
        saved = parse_json(read_file(folder / NOTES), folder / NOTES)
        tags = [str(tag)[:MOST_TAG] for tag in saved["tags"]][:MOST_TAGS]
        return {"tags": tags, "note": str(saved["note"])[:MOST_NOTE]}
    except (DeepcanonError, KeyError, TypeError):
        return {"tags": [], "note": ""}


def write_notes(folder: Path, tags: Any, note: Any) -> dict[str, Any]:
    """Keep tags and a note with a run."""
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags) or not isinstance(note, str):
        raise UsageError('a note is {"tags": [texts], "note": text}')
    kept = list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if len(kept) > MOST_TAGS or any(len(tag) > MOST_TAG for tag in kept) or len(note) > MOST_NOTE:
        raise UsageError(
            f"a run has at most {MOST_TAGS} tags of {MOST_TAG} letters, and a note of {MOST_NOTE:,} letters"
        )
    write_json(folder / NOTES, {"tags": kept, "note": note})
    return {"tags": kept, "note": note}
