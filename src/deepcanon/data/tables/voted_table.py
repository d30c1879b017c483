"""Votes of labeling functions in the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.hints import listed
from deepcanon.core.reading import Reading, names_in
from deepcanon.core.voted import ABSTAINS
from deepcanon.data.tables.csv_file import CsvFile
from deepcanon.data.tables.table import with_class_names
from deepcanon.data.tables.table_columns import Category, Column


def without_votes(reading: Reading) -> tuple[tuple[str, ...], Reading]:
    """The columns of votes, and the options by which the other columns are read, of which these are none."""
    given = reading.get("votes")
    if given is None:
        return (), reading
    names = names_in(given)
    if reading.get("target") is None:
        raise UsageError("votes are for the classes of a target: name its column, too (target)")
    if reading["target"] in names:
        raise UsageError(f"the target {reading['target']!r} cannot be a vote as well")
    dropped = names_in(reading.get("drop") or ())
    others: Reading = {**reading, "drop": (*dropped, *names)}
    del others["votes"]
    return names, others


def votes_of(file: CsvFile, names: Sequence[str], target: Column | None) -> Tensor:
    """The votes in these columns, (rows, sources): classes of the target, or -1 where a cell is empty."""
    if not isinstance(target, Category):
        raise UsageError(f"votes are for classes; the target of {file.path} is a number")
    known = {value: index for index, value in enumerate(target.values)}
    votes = np.full((len(file), len(names)), ABSTAINS)
    for place, name in enumerate(names):
        file = with_class_names(file, name)
        texts, codes = file.coded(name)
        classes = np.array([known.get(text, ABSTAINS - 1 if text.strip() else ABSTAINS) for text in texts])[codes]
        if (strange := classes < ABSTAINS).any():
            row = int(strange.argmax())
            said = f"{file.text(row, name)!r} is not a class of {target.name!r}, which has"
            raise file.wrong(row, name, f"{said} {listed(target.values)}; leave a cell empty where a source abstains")
        votes[:, place] = classes
    return torch.from_numpy(votes)
