"""The pictures of a comparison for its page: samples side by side, learning and training curves, confusion matrices."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.comparison.charts import cloud, growth, lines
from deepcanon.comparison.record import Entry
from deepcanon.comparison.tables import Row, Section
from deepcanon.core import Blueprint, Model, conditioned
from deepcanon.core.roles import Samples
from deepcanon.core.svg import Point
from deepcanon.data import Dataset
from deepcanon.data.transforms.forms import black_and_white
from deepcanon.pictures import confusion, image_grid
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.resume import load

GRID, ACROSS = 36, 6
"""The number of images of a grid, and of those in a line."""
CLOUD = 600
CURVE = 300
Exhibit = tuple[str, str]
"""A caption and the HTML of what stands above it."""


def sample_exhibits(
    section: Section, data: Dataset[Any], out: Path, candidates: Mapping[str, Blueprint]
) -> list[Exhibit]:
    """Test data, and next to them samples of every generative model, of its first seed."""
    drawing = [row for row in section.rows if any(each["drawn"] is not None for each in row.measured)]
    if not drawing or data.kind not in ("images", "points", "table"):
        return []
    held_out = data.split("test").x
    show = _sheet(data) if data.kind == "images" else _plane(held_out)
    count = GRID if data.kind == "images" else CLOUD
    found = [("test data", show(_spread(held_out, count)))]
    for row in drawing:
        entry = _first(row)
        model = load(out / entry["run"], find=candidates[row.label].find)
        drawing_model = conditioned(model, data.split("test"), count)
        samples = _samples(drawing_model, count, entry["seed"])
        spins = entry["form"] == "spins" != section.form
        found.append((row.label, show((samples + 1) / 2 if spins else samples)))
    return found


def curve_exhibits(section: Section, out: Path, candidates: Mapping[str, Blueprint]) -> list[Exhibit]:
    """The validation curve of every model over the time of its training, all seeds in one chart.

    Of a training of one epoch it is the training curve of the same measure, or else of the loss, where it measures fit.
    """
    found = []
    for row in (row for row in section.rows if row.in_catalogue):
        logs = [RunFolder.open(out / entry["run"]).log() for entry in row.entries if entry["measured"] is not None]
        surrogate = candidates[row.label].cls.surrogate
        name = _watched([record for log in logs for record in log], row, surrogate)
        shown = _curves(logs, "epoch", _valid(name))
        behind = _curves(logs, "step", _trained(name))
        if not (shown or behind or surrogate):
            name, behind = "loss", _curves(logs, "step", _trained("loss"))
        if shown or behind:
            caption = f"{row.label}: {'validation' if shown else 'training'} {name.replace('_', ' ')}"
            found.append((caption, lines(shown or behind, "seconds", behind if shown else [])))
        else:
            once = all(each["steps"] == 1 for each in row.measured)
            words = (
                "It is fitted in one step: there is no curve." if once else "It was measured once: there is no curve."
            )
            found.append((row.label, f'<p class="none">{words}</p>'))
    return found


def size_exhibits(section: Section) -> list[Exhibit]:
    """The measure that ranks the models against the number of training examples, a curve for each model."""
    if not section.parts:
        return []
    column = section.chooser
    every = [*section.parts, (section.gains[0]["all"] if section.gains else 0, section.rows)]
    curves: dict[str, list[tuple[float, list[float]]]] = {}
    for row in section.rows:
        found = [
            (float(count), values)
            for count, rows in every
            for each in rows
            if each.label == row.label and (values := each.values(column)) and count
        ]
        if found:
            curves[row.label] = found
    if not curves:
        return []
    words = f"{column.title} on the test data against the number of training examples; a dot for each seed"
    return [(words, growth(curves, "training examples"))]


def confusion_exhibits(section: Section, labels: Sequence[str]) -> list[Exhibit]:
    """The confusion matrix of every classifier, of its first seed."""
    found = []
    for row in section.rows:
        predictions = next((each["predictions"] for each in row.measured if each["predictions"] is not None), None)
        if predictions is not None:
            found.append((row.label, inlined(confusion(torch.tensor(predictions["confusion"]), labels), row.label)))
    return found


def inlined(figure: Figure, words: str) -> str:
    """A figure as an image inside the page."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    figure.clear()
    code = base64.b64encode(content.getvalue()).decode()
    return f'<img alt="{html.escape(words)}" src="data:image/png;base64,{code}">'


def _sheet(data: Dataset[Any]) -> Callable[[Tensor], str]:
    limits = black_and_white(data.preprocessing)
    return lambda x: inlined(image_grid(x, data.shape, ACROSS, limits=limits), "a grid of images")


def _plane(held_out: Tensor) -> Callable[[Tensor], str]:
    """Points in front of the test data, in their own plane or in that of the first two principal components."""
    rows = held_out.double().flatten(1)
    center = rows.mean(0)
    if rows.shape[1] == 2:
        axes = torch.eye(2, dtype=torch.float64)
    else:
        axes = torch.linalg.svd(rows - center, full_matrices=False).Vh[:2].T
    if axes.shape[1] < 2:
        axes = torch.cat([axes, torch.zeros_like(axes)], 1)

    def project(x: Tensor) -> list[Point]:
        flat = x.detach().cpu().double().flatten(1)
        return [(a, b) for a, b in ((flat - center) @ axes).tolist()]

    behind = project(_spread(rows, CLOUD))
    low, high = (torch.tensor(behind).aminmax(dim=0)[i] for i in (0, 1))
    half, middle = 0.56 * float((high - low).max()), (low + high) / 2
    left, bottom = (float(value) - half for value in middle)
    window = ((left, bottom), (left + 2 * half, bottom + 2 * half))
    return lambda x: cloud(project(x), behind, window)


def _samples(model: Model[Any], count: int, seed: int) -> Tensor:
    if not isinstance(model, Samples):
        raise TypeError(f"{model.name()} draws no samples")
    return model.sample(count, generator=Generator().manual_seed(seed))


def _first(row: Row) -> Entry:
    return next(entry for entry in row.entries if entry["measured"] is not None)


def _spread(x: Tensor, count: int) -> Tensor:
    """Examples spread evenly over all, since data are often sorted."""
    count = min(count, len(x))
    return x[torch.arange(count) * len(x) // count]


def _watched(records: Sequence[Mapping[str, Any]], row: Row, surrogate: bool) -> str:
    """The measure whose curve is shown: the likelihood, else the model's own, else the loss where it measures fit."""
    there = {name for record in records if record["kind"] == "epoch" for name in record["valid"]}
    own = [name for each in row.measured for name in each["metrics"]]
    return next((name for name in ("nll", *own) if name in there), "" if surrogate else "loss")


def _valid(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda record: record["valid"].get(name)


def _trained(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    """The same measure on training batches, where it is the loss or one of its terms."""
    return lambda record: record["loss"] if name == "loss" else record["terms"].get(name)


def _curves(
    logs: Sequence[Sequence[Mapping[str, Any]]], kind: str, take: Callable[[Mapping[str, Any]], float | None]
) -> list[list[Point]]:
    """The curves of all seeds that have more than a point."""
    return [curve for log in logs if len(curve := _points(log, kind, take)) > 1]


def _points(
    log: Sequence[Mapping[str, Any]], kind: str, take: Callable[[Mapping[str, Any]], float | None]
) -> list[Point]:
    records = [record for record in log if record["kind"] == kind]
    thin = max(1, len(records) // CURVE)
    pairs = [(float(record["seconds"]), take(record)) for record in records[::thin]]
    return [(at, value) for at, value in pairs if value is not None]
