"""Laws measured in a process of their own, in JSON's types: what ``deepcanon check`` calls there."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from deepcanon.laws import check, kinds_of, load_target


def outcomes(target: str, kind: str | None) -> dict[str, Any]:
    """The kinds of laws that ``FILE.py:Name`` is held to, and the outcome of each law; those that fail stand first."""
    loaded = load_target(target)
    kinds = [kind] if kind is not None else kinds_of(loaded)
    found = sorted((each for one in kinds for each in check(loaded, one)), key=lambda outcome: outcome.holds)
    return {"kinds": kinds, "outcomes": [asdict(outcome) for outcome in found]}
