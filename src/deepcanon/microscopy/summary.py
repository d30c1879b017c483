"""Summaries of a compute graph: of each tensor, and of all edges as a table for the terminal."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from deepcanon.microscopy.verdict import Array, typical

if TYPE_CHECKING:
    from deepcanon.microscopy.compute_graph import ComputeGraph, Edge

COLUMNS = ("edge", "from", "to", "shape", "value", "delta", "verdict")
THUMBNAIL = (12, 24)
"""The most rows and columns of the small picture of a tensor."""


def summary(array: Array, entries: int) -> dict[str, Any]:
    """The summary of a tensor: shape, extremes, mean, its first entries, and a picture of one byte per cell.

    >>> summary(np.array([[1.0, -2.0]]), 1)["first"]
    [1.0]
    """
    real = np.real(array)
    found: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype), "size": array.size}
    if array.size:
        numbers = real.astype(np.float64)
        found |= {"min": _tidy(numbers.min()), "mean": _tidy(numbers.mean()), "max": _tidy(numbers.max())}
        found["rms"] = _tidy(typical(numbers))
        found["first"] = [_tidy(number) for number in numbers.reshape(-1)[:entries]]
        if array.size > 1 and entries > 1:
            found["picture"] = picture(numbers)
    return found


def picture(numbers: Array) -> dict[str, Any]:
    """The numbers as a small table of cells from -127 to 127, neighbors averaged where there are too many.

    An infinite number, as a masked score is, is shown as the largest of the others.

    >>> picture(np.array([[0.0, 1.0], [-1.0, 0.5]]))["rows"]
    2
    >>> picture(np.array([[0.5, 2.0], [-np.inf, 0.5]]))["largest"]
    2.0
    """
    columns = numbers.shape[-1] if numbers.ndim else 1
    most = np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)
    table = np.nan_to_num(numbers.reshape(-1, columns), posinf=most, neginf=-most)
    for axis, size in enumerate(THUMBNAIL):
        parts = np.array_split(np.arange(table.shape[axis]), min(size, table.shape[axis]))
        starts = [int(part[0]) for part in parts]
        sizes = np.array([len(part) for part in parts], dtype=np.float64)
        sums = np.add.reduceat(table, starts, axis=axis)
        table = sums / (sizes[:, None] if axis == 0 else sizes[None, :])
    largest = float(np.abs(table).max()) or 1.0
    cells = np.rint(table / largest * 127).astype(np.int8)
    return {
        "rows": table.shape[0],
        "columns": table.shape[1],
        "largest": _tidy(largest),
        "cells": base64.b64encode(cells.tobytes()).decode(),
    }


def table(graph: ComputeGraph, most: int | None = None) -> list[tuple[str, ...]]:
    """One row per edge, in the order of computation; with ``most``, mismatches first."""
    chosen = graph.edges
    if most is not None and len(chosen) > most:
        chosen = sorted(graph.edges, key=lambda edge: (edge.verdict.status != "mismatch", edge.id))[:most]
    return [_row(graph, edge) for edge in chosen]


def as_text(graph: ComputeGraph) -> str:
    """The graph as lines of a table and its checks."""
    rows = [COLUMNS, *table(graph)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    checks = [f"{'holds' if check.holds else 'FAILS'}  {check.name}: {check.detail}" for check in graph.checks]
    return "\n".join([f"{graph.title}: loss {graph.loss:.6g}", *lines, *checks])


def short(array: Array | None) -> str:
    """A tensor in a few characters: its numbers if they are few, else their typical size.

    >>> short(np.array(0.25)), short(np.array([1.0, -2.0])), short(np.ones((3, 3)))
    ('0.25', '[1, -2]', '~1')
    """
    if array is None:
        return ""
    if array.ndim == 0:
        return f"{array[()]:.4g}" if array.dtype.kind in "fiu" else str(array[()])
    if array.size <= 2 and array.dtype.kind in "fiu":
        return "[" + ", ".join(f"{number:.4g}" for number in array.reshape(-1)) + "]"
    return f"~{typical(array.astype(np.float64)):.3g}" if array.dtype.kind in "fiub" else f"~{typical(array):.3g}"


def _row(graph: ComputeGraph, edge: Edge) -> tuple[str, ...]:
    shape = "x".join(map(str, edge.value.shape)) or "number"
    return (
        str(edge.id), _label(graph, edge.source), _label(graph, edge.target), shape, short(edge.value),
        short(edge.delta), _verdict(edge),
    )  # fmt: skip


def _label(graph: ComputeGraph, number: int) -> str:
    node = graph.nodes[number]
    group = "" if node.group is None else graph.groups[node.group].name
    return node.name if not group or node.name.startswith(group) else f"{group}: {node.name}"


def _verdict(edge: Edge) -> str:
    verdict = edge.verdict
    if verdict.status == "mismatch":
        return f"MISMATCH: delta {verdict.given:.4g}, differences {verdict.measured:.4g} {verdict.detail}".rstrip()
    return {"constant": "", "cut": "cut", "kink": "agrees (kink)"}.get(verdict.status, verdict.status)


def _tidy(number: Any) -> float | str:
    """The number with five digits; NaN and infinity, which JSON does not have, as text."""
    number = float(number)
    return float(f"{number:.5g}") if np.isfinite(number) else str(number)
