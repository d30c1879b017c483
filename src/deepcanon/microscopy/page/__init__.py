"""The compute graph as one HTML file for a browser: no server, no network, nothing to install."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from deepcanon.core.files import write_whole
from deepcanon.core.plural import counted
from deepcanon.microscopy.compute_graph import ComputeGraph, Edge
from deepcanon.microscopy.formulas import filled
from deepcanon.microscopy.moved_edges import Movement, movements
from deepcanon.microscopy.summary import summary

NUMBERS = 120_000
"""The approximate number of tensor entries that a file holds; with more tensors, each shows fewer."""
CELLS = 100
"""The most entries of a local Jacobian that is part of the file."""


def as_data(graph: ComputeGraph, before: ComputeGraph | None = None) -> dict[str, Any]:
    """All that is shown of a graph, in JSON's own types; tensors by their summaries.

    ``before`` is the graph before a number was edited: then every edge says by how much it has moved.
    """
    moved = {} if before is None else {each.edge: each for each in movements(before, graph)}
    tensors = sum(len(node.values) for node in graph.nodes) + len(graph.edges)
    entries = max(4, min(144, NUMBERS // max(1, tensors)))
    return {
        "title": graph.title,
        "loss": graph.loss,
        "edited": before is not None,
        "checks": [asdict(check) for check in graph.checks],
        "groups": [asdict(group) for group in graph.groups],
        "nodes": [
            {
                "id": node.id,
                "op": node.op,
                "name": node.name,
                "group": node.group,
                "where": node.where,
                "call": graph.tape.records[node.id].call,
                "values": [summary(value, entries) for value in node.values],
                "deltas": [None if delta is None else summary(delta, entries) for delta in node.deltas],
            }
            for node in graph.nodes
        ],
        "edges": [{**_edge(graph, edge, entries), "moved": _moved(moved.get(edge.id))} for edge in graph.edges],
    }


def as_page(graph: ComputeGraph, before: ComputeGraph | None = None) -> str:
    """The page, with its style, its script and its data inside; ``before`` is the graph before an edit."""
    checks = "".join(
        f'<li class="{"holds" if check.holds else "fails"}" title="{html.escape(check.detail)}">'
        f"{'✓' if check.holds else '≠'} {html.escape(check.name)}</li>"
        for check in graph.checks
    )
    data = json.dumps(as_data(graph, before), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    parts = {
        "title": html.escape(graph.title),
        "style": _text("page.css"),
        "loss": f"{graph.loss:.6g}",
        "size": f"{counted(len(graph.nodes), 'node', ',')}, {counted(len(graph.edges), 'edge', ',')}",
        "checks": checks,
        "data": data.replace("<", "\\u003c"),  # so that no text in it can end the script
        "script": "\n".join(_text(name) for name in ("layout.js", "panel.js", "graph.js")),
    }
    return re.sub(r"@(\w+)@", lambda match: parts[match[1]], _text("page.html"))


def write(graph: ComputeGraph, path: Path) -> Path:
    """Write the page or the data, by the ending of the name; the file appears whole or not at all."""
    text = (
        as_page(graph)
        if path.suffix.lower() == ".html"
        else json.dumps(as_data(graph), allow_nan=False, indent=1) + "\n"
    )
    write_whole(path, text)
    return path


def _edge(graph: ComputeGraph, edge: Edge, entries: int) -> dict[str, Any]:
    target = graph.nodes[edge.target]
    small = edge.value.size * target.values[0].size <= CELLS and len(target.values) == 1
    return {
        "id": edge.id,
        "source": edge.source,
        "output": edge.output,
        "target": edge.target,
        "slot": edge.slot,
        "delta": None if edge.delta is None else summary(edge.delta, entries),
        "verdict": asdict(edge.verdict),
        "rule": filled(graph, edge),
        "jacobian": _rows(graph, edge) if small and edge.delta is not None else None,
    }


def _moved(found: Movement | None) -> dict[str, float | str] | None:
    """The change of an edge, by shares; None where it has not moved."""
    if found is None:
        return None
    return {name: x if math.isfinite(x := getattr(found, name)) else "new" for name in ("value", "delta")}


def _rows(graph: ComputeGraph, edge: Edge) -> list[list[float]]:
    matrix = graph.jacobian(edge).reshape(-1, edge.value.size).real
    return [[float(f"{number:.4g}") for number in row] for row in matrix]


def _text(name: str) -> str:
    return files("deepcanon.microscopy.page").joinpath(name).read_text(encoding="utf-8")
