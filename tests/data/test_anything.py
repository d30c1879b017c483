"""One function makes a data set of anything, and says what it became."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import (
    Batch,
    DataError,
    Graph,
    Graphs,
    ImagePairs,
    Incomplete,
    Labeled,
    LabeledGraphs,
    LabeledSequences,
    SentencePairs,
    SequencePairs,
    Sequences,
    Series,
    TwoDomains,
    UsageError,
    Videos,
)

TOKENS = torch.tensor([[1, 4, 2, 0], [1, 5, 6, 2]])
LENGTHS = torch.tensor([3, 4])
IMAGES = torch.rand(2, 1, 4, 4)
RING = Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), nodes=3)


@pytest.mark.parametrize(
    ("data", "named", "kind", "batch"),
    [
        (torch.rand(2, 3), {}, "table", Batch),
        (torch.rand(2, 3), {"y": [0, 1]}, "table", Labeled),
        (IMAGES, {"y": IMAGES}, "domains", ImagePairs),
        (torch.rand(2, 3), {"unpaired": torch.rand(5, 3)}, "domains", TwoDomains),
        (np.array([[1.0, np.nan], [2.0, 5.0]]), {"observed": np.array([[True, False], [True, True]])}, "ratings",
         Incomplete),
        (torch.rand(2, 4, 3), {"lengths": LENGTHS}, "series", Series),
        (torch.rand(2, 4, 3), {"lengths": 4, "covariates": torch.rand(2, 4, 2)}, "series", Series),
        (torch.rand(2, 4, 3), {"lengths": LENGTHS, "y": [0, 1]}, "sequences", LabeledSequences),
        (TOKENS, {"lengths": LENGTHS}, "text", Sequences),
        (TOKENS, {"lengths": LENGTHS, "y": [0.5, 1.5]}, "sequences", LabeledSequences),
        (TOKENS, {"lengths": LENGTHS, "y": TOKENS, "y_lengths": LENGTHS}, "pairs", SequencePairs),
        (TOKENS, {"lengths": LENGTHS, "y": [0, 1], "segments": torch.zeros(2, 4, dtype=torch.long)}, "sentences",
         SentencePairs),
        (torch.rand(2, 3, 1, 4, 4), {"lengths": 3}, "videos", Videos),
        ([RING, RING], {}, "graphs", Graphs),
        ([RING, RING], {"y": [0, 1]}, "graphs", LabeledGraphs),
    ],
)  # fmt: skip
def test_every_kind_is_built_in_one_line(data: Any, named: dict[str, Any], kind: str, batch: type) -> None:
    found = dc.data.of(data, **named)
    assert found.kind == kind
    assert type(found.train) is batch
    assert len(found.train.select(torch.tensor([1]))) == 1


def test_names_files_and_data_sets_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(20)))
    moons = dc.data.of("moons")
    assert moons.name == "moons"
    assert dc.data.of(moons) is moons
    assert dc.data.of(path, target="b").target == "b"


@pytest.mark.parametrize(
    ("data", "named", "words"),
    [
        (torch.rand(2, 3), {"covariates": torch.rand(2, 3)}, "rows and images have no covariates"),
        (TOKENS, {"lengths": LENGTHS, "unpaired": TOKENS}, "sequences have no unpaired"),
        (TOKENS, {"lengths": LENGTHS, "y": TOKENS, "y_lengths": LENGTHS, "times": TOKENS}, "have no times"),
        (torch.rand(2, 4, 3), {"lengths": LENGTHS, "y": [0, 1], "statics": LENGTHS}, "only time series"),
    ],
)  # fmt: skip
def test_a_part_that_such_data_do_not_have_is_refused(data: Any, named: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        dc.data.of(data, **named)


def test_lengths_are_checked() -> None:
    with pytest.raises(DataError, match="lengths must be whole numbers from 1 to 4"):
        dc.data.of(TOKENS, lengths=torch.tensor([5, 1]))
    with pytest.raises(DataError, match="whole numbers from 0 on"):
        dc.data.of(torch.rand(2, 4), lengths=LENGTHS)
    with pytest.raises(UsageError, match="has all its parts already"):
        dc.data.of(dc.load_data("moons"), y=[1])
    with pytest.raises(UsageError, match="one by one"):
        dc.data.of(Batch(torch.zeros(1, 1)))
