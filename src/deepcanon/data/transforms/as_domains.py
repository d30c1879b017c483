"""Two classes as two unpaired domains: ``moons:domains``, ``digits:domains=3/8``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from torch import Tensor

from deepcanon.core import DataError, Labeled, SemiBatch, TwoDomains, UsageError
from deepcanon.data.dataset import Dataset

MARK = "domains"
"""The beginning of the suffix of the form."""


def read_form(name: str, form: str) -> tuple[str, str] | None:
    """The names of the two classes that a form asks for, None where it leaves them open.

    >>> read_form("digits", "domains=3/8"), read_form("moons", "domains")
    (('3', '8'), None)
    """
    if form == MARK:
        return None
    found = re.fullmatch(rf"{MARK}=([^/]+)/([^/]+)", form)
    if found is None or found[1] == found[2]:
        raise UsageError(f"two domains are written {name}:domains or, of two classes, {name}:domains=A/B; got :{form}")
    return found[1], found[2]


def as_domains(data: Dataset[Any], form: str) -> Dataset[TwoDomains]:
    """The examples of one class as domain x and those of another as domain y, in every split."""
    if not data.train.is_a(Labeled) or isinstance(data.train, SemiBatch) or "classes" not in data.sizes:
        raise DataError(f"two domains are two classes, and {data.name} does not give classes; leave out ':{form}'")
    names = list(data.labels) or [str(label) for label in range(data.sizes["classes"])]
    asked = read_form(data.name, form)
    if asked is None and len(names) != 2:
        raise DataError(f"{data.name} has {len(names)} classes; say which are the domains: {data.name}:domains=A/B")
    for name in asked or ():
        if name not in names:
            raise DataError(f"{data.name} has no class {name!r}; it has {', '.join(names)}")
    classes = [names.index(name) for name in asked or names]

    def of_class(split: Labeled, label: int) -> Tensor:
        chosen: Tensor = split.select((split.y == label).nonzero().squeeze(1)).x
        return chosen

    train, valid, test = (
        None if split is None else TwoDomains(*(of_class(split, label) for label in classes))
        for split in (data.train, data.valid, data.test)
    )
    before = data.preprocessing.get("form")
    return replace(
        data,
        name=f"{data.name}:{form}",
        kind="domains",
        train=train,
        valid=valid,
        test=test,
        sizes={size: value for size, value in data.sizes.items() if size != "classes"},
        labels=(),
        preprocessing={**data.preprocessing, "form": f"{before}:{form}" if before else form},
    )
