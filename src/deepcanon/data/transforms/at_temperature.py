"""Lattices of the Ising model at another temperature, ``ising:temperature=3``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from deepcanon.core import UsageError
from deepcanon.data.dataset import Dataset
from deepcanon.data.sets import lattices

MARK = "temperature="
"""The beginning of the suffix of the form."""


def read_form(name: str, form: str) -> float:
    """The temperature that a form asks for.

    >>> read_form("ising", "temperature=2.5")
    2.5
    """
    if name != lattices.ISING.name:
        raise UsageError(f"a temperature is a form of ising, and comes first: ising:{form} (got {name}:{form})")
    try:
        temperature = float(form.removeprefix(MARK))
    except ValueError:
        temperature = math.nan
    if not 0.1 <= temperature < math.inf:
        raise UsageError(f"the temperature of lattices is a number from 0.1 on, as ising:temperature=2.5; got {form}")
    return temperature


def at_temperature(data: Dataset[Any], form: str) -> Dataset[Any]:
    """The lattices at another temperature, as many."""
    train, valid, test = lattices.splits(read_form(data.name, form))
    return replace(
        data,
        name=f"{data.name}:{form}",
        train=train,
        valid=valid,
        test=test,
        source=data.source.replace(f"temperature {lattices.TEMPERATURE}", f"temperature {form.removeprefix(MARK)}"),
        preprocessing={**data.preprocessing, "form": form},
    )
