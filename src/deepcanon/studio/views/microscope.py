"""The microscope on any run and any example, and what moves when one number is edited."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import torch

from deepcanon.core import UsageError
from deepcanon.microscopy.compute_graph import ComputeGraph
from deepcanon.microscopy.microscope import microscope
from deepcanon.microscopy.moved_edges import movements
from deepcanon.microscopy.page import as_page
from deepcanon.studio.views.looking import look_into

MOST_EXAMPLES = 16
SHOWN = 4096
"""Of a larger tensor only the first numbers are offered to be edited."""


def subject(run: Path) -> dict[str, Any]:
    """What can be put under the microscope: the splits of a run, and the numbers of its model that can be edited."""
    look = look_into(run)
    return {
        "model": look.model.name(),
        "data": look.data.name,
        "splits": look.splits,
        "parameters": [
            {"name": name, "shape": list(parameter.shape), "size": parameter.numel()}
            for name, parameter in look.model.named_parameters()
        ],
    }


def numbers(run: Path, parameter: str) -> dict[str, Any]:
    """The numbers of a parameter, in their order, as far as they are offered to be edited."""
    found = _parameter(look_into(run).model, parameter)
    return {
        "name": parameter,
        "shape": list(found.shape),
        "size": found.numel(),
        "values": found.detach().flatten()[:SHOWN].double().tolist(),
    }


def magnified(run: Path, split: str, examples: list[int], *, edit: dict[str, Any] | None = None) -> ComputeGraph:
    """The compute graph of some examples; ``edit`` sets one number, ``{"parameter", "index", "value"}``, in a copy."""
    look = look_into(run)
    if not 1 <= len(examples) <= MOST_EXAMPLES:
        raise UsageError(f"the microscope takes 1 to {MOST_EXAMPLES} examples (got {len(examples)})")
    model, title = look.model, f"{look.model.name()} on {look.data.name}, {_named(split, examples)}"
    if edit is not None:
        model = copy.deepcopy(model)
        _set(model, edit)
    return microscope(model, look.rows(split, examples), title=title)


def page(run: Path, split: str, examples: list[int], *, edit: dict[str, Any] | None = None) -> str:
    """The page of the microscope; after an edit, the edges that it moves stand out."""
    before = magnified(run, split, examples)
    return as_page(before) if edit is None else as_page(magnified(run, split, examples, edit=edit), before)


def edited(run: Path, split: str, examples: list[int], edit: dict[str, Any]) -> dict[str, Any]:
    """What an edit of one number moves: the loss, and every edge whose value or delta is another now."""
    before = magnified(run, split, examples)
    after = magnified(run, split, examples, edit=edit)
    found = movements(before, after)
    old = _parameter(look_into(run).model, str(edit["parameter"])).detach().flatten()[int(edit["index"])]
    slope = before.find(str(edit["parameter"])).delta.reshape(-1)[int(edit["index"])]
    return {
        "parameter": edit["parameter"],
        "index": int(edit["index"]),
        "before": float(old),
        "after": float(edit["value"]),
        "loss_before": before.loss,
        "loss_after": after.loss,
        "slope": float(slope.real),
        "foreseen": before.loss + float(slope.real) * (float(edit["value"]) - float(old)),
        "edges": len(before.edges),
        "moved": [
            {
                "edge": each.edge,
                "from": before.nodes[before.edges[each.edge].source].name,
                "to": before.nodes[before.edges[each.edge].target].name,
                "value": each.value if math.isfinite(each.value) else None,
                "delta": each.delta if math.isfinite(each.delta) else None,
            }
            for each in found
        ],
    }


def _set(model: Any, edit: dict[str, Any]) -> None:
    found = _parameter(model, str(edit.get("parameter")))
    try:
        index, value = int(edit["index"]), float(edit["value"])
    except (KeyError, TypeError, ValueError):
        raise UsageError("an edit names a parameter, the index of a number in it, and its new value") from None
    if not 0 <= index < found.numel():
        raise UsageError(f"{edit['parameter']} has the numbers 0 to {found.numel() - 1} (got {index})")
    if not math.isfinite(value):
        raise UsageError(f"the new value must be finite (got {value})")
    with torch.no_grad():
        found.view(-1)[index] = value


def _parameter(model: Any, name: str) -> torch.nn.Parameter:
    found: dict[str, torch.nn.Parameter] = dict(model.named_parameters())
    if name not in found:
        raise UsageError(f"the model has no parameter {name[:80]!r}")
    return found[name]


def _named(split: str, examples: list[int]) -> str:
    return f"{split} {'example' if len(examples) == 1 else 'examples'} {', '.join(map(str, examples))}"
