"""Graphs from what users have: networkx, a CSV file of edges, points in space."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.graph_arguments import shown, tensor

Parts = tuple[Tensor, int, Tensor | None, tuple[Any, ...]]
"""The edges, the number of nodes, the weights and the names of the nodes."""

NeighborWeight = Literal["none", "distance", "gaussian"]


def of_networkx(graph: Any, weight: str | None) -> Parts:
    """The edges of a graph of networkx, both ways where it is undirected, with nodes numbered in its order."""
    if not (hasattr(graph, "nodes") and hasattr(graph, "is_directed")):
        raise UsageError(f"from_networkx takes a graph of networkx, got {type(graph).__name__}")
    if not isinstance(weight, str | None):
        raise UsageError(f"weight is the name of an attribute of edges, or None for no weights; got {shown(weight)}")
    names = tuple(graph.nodes)
    number = {name: place for place, name in enumerate(names)}
    listed = [(number[a], number[b], values) for a, b, values in graph.edges(data=True)]
    weights = None
    if weight not in (None, "weight") and listed and not any(weight in values for _, _, values in listed):
        raise DataError(f"no edge has the attribute {weight!r}; give the name of the weights, or weight=None")
    if weight is not None and any(weight in values for _, _, values in listed):
        try:
            weights = [float(values.get(weight, 1.0)) for _, _, values in listed]
        except (TypeError, ValueError) as error:
            raise DataError(f"the weights of edges, {weight!r}, must be numbers: {error}") from error
    return _both_ways([(a, b) for a, b, _ in listed], weights, graph.is_directed(), len(names), names)


def of_edge_csv(path: Path, directed: bool) -> Parts:
    """The edges in the rows of a CSV file, with nodes numbered in the order in which they occur."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV file of edges: {error}") from error
    header = rows[0][1] if rows else []
    if len(header) < 2:
        raise DataError(
            f"{path} needs a row of names and two columns for the ends of an edge, source and target, with commas "
            "between them"
        )
    if all(_is_number(name) for name in header):
        raise DataError(f"{path} needs a row of names first, such as source,target; its first row is an edge: {header}")
    ends = ("source", "target") if {"source", "target"} <= {*header} else (header[0], header[1])
    places = [header.index(name) for name in ends]
    at = header.index("weight") if "weight" in header else None
    number: dict[str, int] = {}
    weights: dict[tuple[int, int], float] = {}
    for line, row in rows[1:]:
        if len(row) != len(header) or not all(row[place] for place in places):
            raise DataError(f"{path}, row {line}: an edge needs {len(header)} cells and both its ends; got {row}")
        if at is not None and not _is_number(row[at]):
            raise DataError(f"{path}, row {line}: the weight must be a number, got {row[at]!r}")
        weight = 1.0 if at is None else float(row[at])
        a, b = (number.setdefault(row[place], len(number)) for place in places)
        pair = (b, a) if not directed and (b, a) in weights else (a, b)
        if weights.setdefault(pair, weight) != weight:
            raise DataError(
                f"{path}, row {line}: the edge of {row[places[0]]!r} and {row[places[1]]!r} is there already with "
                "another weight; list it once" + ("" if directed else ", or say directed=True")
            )
    return _both_ways([*weights], None if at is None else [*weights.values()], directed, len(number), tuple(number))


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def of_points(points: Any, k: int, directed: bool, weight: NeighborWeight) -> Parts:
    """The k nearest neighbors of every point: edges from them to it; undirected, the mean of both directions."""
    from scipy.spatial import KDTree

    if weight not in get_args(NeighborWeight):
        raise UsageError(f"weight must be one of {', '.join(get_args(NeighborWeight))} (got {weight!r})")
    points = tensor(points, "points are rows of finite real numbers")
    if points.ndim != 2 or points.is_complex() or not bool(points.isfinite().all()):
        raise DataError(f"points are rows of finite real numbers, got {tuple(points.shape)} of {points.dtype}")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k < len(points):
        raise UsageError(f"{len(points)} points have 1 to {len(points) - 1} neighbors each, got k={k}")
    values = points.detach().cpu().double().numpy()
    distances, found = (torch.from_numpy(part) for part in KDTree(values).query(values, k + 1))
    own = found == torch.arange(len(points)).unsqueeze(1)
    own[~own.any(1), -1] = True  # among points in one place, some other may come first; the farthest is left out
    near, far = found[~own].view(-1, k), distances[~own].view(-1, k)
    target = torch.arange(len(points)).repeat_interleave(k)
    edges, lengths = torch.stack([near.flatten(), target]), far.flatten()
    if weight == "gaussian":
        scale = far[:, -1].mean().clamp_min(torch.finfo(far.dtype).tiny)  # of points that are all in one place it is 0
        lengths = (-0.5 * (lengths / scale).square()).exp()
    elif weight == "none":
        lengths = torch.ones_like(lengths)
    if directed:
        return edges, len(points), None if weight == "none" else lengths.float(), ()
    keys = torch.cat([edges, edges.flip(0)], 1)
    pairs, place, count = (keys[0] * len(points) + keys[1]).unique(return_inverse=True, return_counts=True)
    added = lengths.new_zeros(len(pairs)).index_add(0, place, lengths.repeat(2))
    added = added / (2 if weight == "none" else count)
    both = torch.stack([pairs // len(points), pairs % len(points)])
    return both, len(points), added.float(), ()


def _both_ways(
    pairs: list[tuple[int, int]], weights: list[float] | None, directed: bool, nodes: int, names: tuple[Any, ...]
) -> Parts:
    edges = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T
    found = None if weights is None else torch.tensor(weights)
    if not directed:
        proper = edges[0] != edges[1]  # a self-loop is listed once
        edges = torch.cat([edges, edges[:, proper].flip(0)], 1)
        found = None if found is None else torch.cat([found, found[proper]])
    return edges.contiguous(), nodes, found, names
