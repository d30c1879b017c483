"""What a command looks at: a trained model and its data, an untrained one and some data, or examples alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

import deepcanon
from deepcanon.catalogue import find
from deepcanon.cli.arguments import Options, wanted
from deepcanon.cli.rows import is_own, new_rows, own_data
from deepcanon.cli.suits import check_suits, default_data
from deepcanon.core import AnyBatch, Model, UsageError
from deepcanon.data import Dataset, load_data
from deepcanon.train import Run

HELD_OUT = ("test", "valid", "train")
"""The parts of the data by how little a model may know of them."""

B = TypeVar("B", bound=AnyBatch)


def is_run(name: str) -> bool:
    """Whether this is the folder of a run, else it is the name of something."""
    return (Path(name) / "run.json").is_file()


def trained(run: Path, data: str | None, parts: Sequence[str] = HELD_OUT) -> tuple[Model[Any], AnyBatch, str]:
    """The model of a run, the first of these parts that its own data have, or other rows, and the name of the data."""
    opened = Run.open(run)
    model = deepcanon.load(run)
    rows = part_of(own_data(opened), parts) if is_own(opened, data) else new_rows(opened, model, data)
    return model, rows, data or opened.info["data"]["name"]


def untrained(
    name: str,
    options: Options,
    others: Sequence[str],
    data: str | None,
    target: str | None,
    seed: int,
    parts: Sequence[str] = HELD_OUT,
) -> tuple[Model[Any], AnyBatch, str]:
    """A model of the catalogue as the options ask for it, a part of the data, by default of some that suit it."""
    model = wanted(find(name), options, others=others)
    if target is not None and data is None:
        raise UsageError(f"--target {target} is a column of which file? Add --data FILE.csv")
    chosen = load_data(data, target=target) if data is not None else default_data(model)
    check_suits(model, chosen)
    torch.manual_seed(seed)
    built = model.build(chosen.sizes, chosen.name)
    built.prepare([chosen.train])
    return built, part_of(chosen, parts), chosen.name


def part_of(data: Dataset[Any], parts: Sequence[str] = HELD_OUT) -> AnyBatch:
    """The first of these parts that the data have."""
    there: list[AnyBatch] = [rows for part in parts if (rows := getattr(data, part)) is not None]
    return there[0]


def few(batch: B, count: int) -> B:
    """The first so many examples."""
    return batch.select(torch.arange(min(count, len(batch))))
