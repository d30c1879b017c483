"""Comparisons: the ladder by kind of evidence, every seed, what it cost and samples, also while one is under way."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepcanon.comparison.columns import PARAMETERS, SECONDS, SHARPEST, SPEED, Column
from deepcanon.comparison.phrases import difference_words
from deepcanon.comparison.record import FILE, FORMAT, Comparison
from deepcanon.comparison.report import FILE as REPORT
from deepcanon.comparison.sentences import in_short, remarks, title
from deepcanon.comparison.tables import Row, Section, failures, sections
from deepcanon.core import UsageError
from deepcanon.core.files import read_sealed
from deepcanon.core.stored import held_to
from deepcanon.runs.contents import Format
from deepcanon.runs.folder_parts import PARTS
from deepcanon.studio.plain import bytes_of, is_plain

COST = (SECONDS, PARAMETERS, SPEED)
SAMPLES = "samples.png"
ENDS = {
    "exact": "exact",
    "lower bound": "a lower bound: the exact value lies higher",
    "estimate": "an estimate: the exact value may lie lower",
    "unnormalized": "unnormalized: only differences mean something",
}
"""The kinds of evidence for a log-likelihood, and what each means."""


def comparison_folders(root: Path) -> Iterator[Path]:
    """The folders that hold a comparison; links are not followed, since they may leave the root."""
    for place, folders, files in os.walk(root):
        if FILE in files and is_plain(os.path.join(place, FILE)):
            yield Path(place)
        folders[:] = [name for name in folders if name not in PARTS and not name.startswith(".")]


def read(folder: Path) -> Comparison:
    """The record of a comparison, which is written anew after each of its trainings."""
    path = folder / FILE
    made_by: Any = read_sealed(path, Format)
    if made_by["format"] != FORMAT:
        raise UsageError(f"{path.name} is of the format {made_by['format']}, not of {FORMAT}: repeat the comparison")
    content: Comparison = held_to(Comparison, made_by, path)
    return content


def summary(folder: Path) -> dict[str, Any]:
    """A comparison in one line of a list."""
    content = read(folder)
    asked = content["request"]
    return {
        "status": content["status"],
        "created": content["created"],
        "data": asked["data"],
        "models": asked["models"],
        "seeds": asked["seeds"],
        "done": len(content["runs"]) + len(content["curve"]),
        "planned": _planned(content),
    }


def compared(folder: Path) -> dict[str, Any]:
    """All that is shown of a comparison; of one that is under way, what there is so far."""
    content = read(folder)
    asked, data = content["request"], content["data"]
    tables = sections(content)
    return {
        **summary(folder),
        "training": _training(content, folder),
        "counts": {split: data[split] for split in ("train", "valid", "test") if data.get(split) is not None},
        "kind": data["kind"],
        "shape": list(data["shape"]),
        "budget": asked.get("budget"),
        "threads": content["threads"],
        "versions": {"deepcanon": content["deepcanon"], "torch": content["torch"]},
        "chosen": content["chosen"],
        "says": in_short(tables),
        "failures": failures(content),
        "sections": [_section(section, folder) for section in tables],
        "report": is_plain(folder / REPORT),
    }


def samples(folder: Path) -> list[Path]:
    """The pictures of samples, of the first seed of each model that draws them, in the order of the tables."""
    found: list[Path] = []
    for section in sections(read(folder)):
        for row in section.rows:
            picture = _picture(row, folder)
            if section.question == "densities" and picture is not None:
                found.append(picture)
    return found


def report(folder: Path) -> bytes:
    """The report of a finished comparison, one self-contained page."""
    path = folder / REPORT
    if not is_plain(path):
        raise UsageError("this comparison has no report yet: it is written when all models are trained")
    return bytes_of(path)


def _planned(content: Comparison) -> int | None:
    """How many trainings there are in all; None where that depends on parts of the data that are not begun yet."""
    asked = content["request"]
    if asked.get("learning_curve"):
        return None
    labels = {*asked["models"], *asked.get("baselines", ())} - content["unsuitable"].keys()
    return len(labels) * int(asked["seeds"])


def _training(content: Comparison, folder: Path) -> list[str]:
    """The runs, as paths below the folder, that are begun and not measured yet."""
    known = {entry["run"] for entry in (*content["runs"], *content["curve"])}
    if content["status"] == "finished":
        return []
    begun = (path.parent.relative_to(folder).as_posix() for path in sorted(folder.glob("*/seed-*/run.json")))
    return [place for place in begun if place not in known]


def _section(section: Section, folder: Path) -> dict[str, Any]:
    columns = [column for column in section.columns if any(row.values(column) for row in section.rows)]
    return {
        "title": title(section),
        "question": section.question,
        "form": section.form,
        "data": section.data,
        "ladder": ladder(section),
        "columns": [
            {
                "title": column.title,
                "meaning": column.meaning,
                "better": column.better,
                "cost": column.title in {each.title for each in COST},
                "ranks": column is section.chooser,
            }
            for column in columns
        ],
        "rows": [_row(section, row, columns, folder) for row in section.rows],
        "remarks": remarks(section),
    }


def ladder(section: Section) -> dict[str, Any]:
    """The measure that ranks the models, every seed a rung: log-likelihoods apart by the kind of their evidence.

    A bound, an estimate and an exact value never share a column, nor do densities that are given different things.
    """
    densities = section.question == "densities"
    column = SHARPEST if densities else section.chooser if section.question != "others" else section.columns[0]
    groups: dict[str, list[Row]] = {}
    for row in section.rows:
        if row.values(column):
            groups.setdefault(row.likelihood if densities else "measured on test data", []).append(row)
    return {
        "title": f"log-likelihood of a test {section.rows[0].per}" if densities else column.title,
        "unit": "nats" if densities else "",
        "better": "high" if densities else column.better,
        "groups": [
            {
                "kind": kind,
                "meaning": ENDS.get(members[0].kind or "", "") if densities else "",
                "rows": [
                    {
                        "label": row.label,
                        "baseline": row.is_baseline,
                        "mean": row.mean(column),
                        "text": column.write(row.mean(column)),
                        "seeds": [
                            {"seed": entry["seed"], "value": value}
                            for entry in row.entries
                            if entry["measured"] is not None and (value := column.take(entry["measured"])) is not None
                        ],
                    }
                    for row in members
                ],
            }
            for kind, members in groups.items()
        ],
    }


def _row(section: Section, row: Row, columns: Sequence[Column], folder: Path) -> dict[str, Any]:
    gap = section.behind(row)
    words = None if gap is None else difference_words(gap, section.chooser)
    return {
        "label": row.label,
        "baseline": row.is_baseline,
        "kind": row.kind,
        "seeds": [
            {"seed": entry["seed"], "run": entry["run"] if row.in_catalogue else None, "error": entry["error"]}
            for entry in row.entries
        ],
        "cells": [_cell(section, row, column) for column in columns],
        "behind": None if gap is None or words is None else {**_finite(gap), "text": words[0], "interval": words[1]},
        "samples": section.question == "densities" and _picture(row, folder) is not None,
    }


def _cell(section: Section, row: Row, column: Column) -> dict[str, Any]:
    values = row.values(column)
    return {
        "mean": row.mean(column),
        "text": column.write(row.mean(column)),
        "values": values,
        "texts": [column.write(value) for value in values],
        "best": section.marked(row, column),
    }


def _picture(row: Row, folder: Path) -> Path | None:
    """The samples of the first seed, where they were drawn."""
    runs = (place_of(folder, entry["run"]) for entry in row.entries if row.in_catalogue)
    pictures = (run / "pictures" / SAMPLES for run in runs if run is not None)
    return next((each for each in pictures if each.is_file() and each.resolve().is_relative_to(folder.resolve())), None)


def place_of(folder: Path, run: str) -> Path | None:
    """The folder of a run of a comparison; None where a file that was made up names one that is not inside."""
    place = (folder / run).resolve()
    return place if place.is_relative_to(folder.resolve()) else None


def _finite(gap: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: gap[name] if math.isfinite(gap[name]) else None for name in ("difference", "low", "high")}
