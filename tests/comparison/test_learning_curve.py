"""The learning curve: nested, stratified parts, and gains that are the differences of the runs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.comparison.baselines.registry import baselines_for
from deepcanon.comparison.columns import RMSE
from deepcanon.comparison.job import run_jobs
from deepcanon.comparison.learning_curve import check_parts, part_of, sizes_of
from deepcanon.comparison.report import write_report
from deepcanon.comparison.sentences import conclusions
from deepcanon.comparison.tables import sections
from deepcanon.core import Batch, Labeled, Stream, UsageError
from deepcanon.runs.folder import RunFolder


def test_parts_are_nested_and_stratified() -> None:
    y = torch.tensor([0] * 160 + [1] * 40)
    train = Labeled(torch.arange(200.0).unsqueeze(1), y)
    parts = [part_of(train, count) for count in sizes_of(train)]
    assert [len(part) for part in parts] == [12, 25, 50, 100]
    for part in parts:
        assert int(part.y.sum()) == pytest.approx(len(part) / 5, abs=1)
    rows = [set(part.x[:, 0].tolist()) for part in parts]
    assert all(small < large for small, large in pairwise(rows))
    assert torch.equal(part_of(train, 25).x, parts[1].x)
    text = Stream(torch.zeros(30, 4).long(), torch.full((30,), 4), torch.arange(30))
    assert part_of(text, 12).starts.tolist() == list(range(12))


def test_what_has_no_parts_is_refused() -> None:
    with pytest.raises(UsageError, match="some can be left out; karate gives a graph"):
        check_parts(dc.load_data("karate"))
    with pytest.raises(UsageError, match="at least 20 training examples; tensors has 15"):
        check_parts(dc.data.of(np.zeros((15, 1))))
    assert sizes_of(Batch(torch.zeros(20, 1))) == [10]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A noisy line in five columns: few rows do not determine the six numbers of the model, many do."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 5))
    y = x @ [3.0, -2.0, 1.0, 0.0, 4.0] + random.normal(size=300)
    path = tmp_path_factory.mktemp("data") / "line.csv"
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="a,b,c,d,e,y", comments="")
    return path


@pytest.mark.slow
def test_a_curve_is_trained_on_parts_and_kept(line: Path, tmp_path: Path) -> None:
    candidates = [dc.blueprint("linear_regression"), dc.blueprint("mlp:hidden=2")]
    data = dc.load_data(line, target="y")
    others = baselines_for(["ridge"], candidates, data)
    asked: dict[str, Any] = {"reading": {"target": "y"}, "baselines": others, "learning_curve": True}
    found = run_jobs(candidates, str(line), tmp_path / "out", **asked)
    counts = [13, 26, 52, 105]
    assert [entry["examples"] for entry in found["curve"]] == [count for count in counts for _ in range(3)]
    runs = (tmp_path / "out" / place / "mlp-hidden-2-plain" / "seed-0" for place in (".", "learning-curve/13"))
    whole, part = (RunFolder.open(run).info for run in runs)
    assert part["results"]["steps"] == whole["results"]["steps"]
    assert part["data"]["fingerprint"] != whole["data"]["fingerprint"]
    (section,) = sections(found)
    errors = {count: {row.label: row.mean(RMSE) for row in rows} for count, rows in section.parts}
    assert errors[13]["linear_regression"] > section.rows[0].mean(RMSE)  # type: ignore[operator]
    for gain in found["gains"]:
        if gain["difference"]["measure"] == "squared_error":
            full = next(row.mean(RMSE) for row in section.rows if row.label == gain["label"])
            fewer = errors[gain["examples"]][gain["label"]]
            assert full is not None
            assert fewer is not None
            assert gain["difference"]["difference"] == pytest.approx(full - fewer, rel=1e-4)
            assert gain["difference"]["low"] <= full - fewer <= gain["difference"]["high"]
    said = " ".join(conclusions(section))
    assert "with 210 training examples instead of 105 changes by" in said
    page = write_report(found, candidates, tmp_path / "out").read_text()
    assert "RMSE on the test data against the number of training examples" in page
    heard: list[str] = []
    again = run_jobs(candidates, str(line), tmp_path / "out", **asked, notify=heard.append)
    trainings = [said for said in heard if said.startswith("[")]
    assert len(trainings) == 15
    assert all(said.endswith("kept") for said in trainings)
    assert again["gains"] == found["gains"]


def test_the_sentence_says_what_the_interval_says() -> None:
    from tests.comparison.test_tables import comparison, entry, measured

    targets = {"target": None, "rmse": 1.0, "mae": 1.0, "r2": 0.5}
    runs = comparison(entry("a", measured(targets=targets)), entry("b", measured(targets={**targets, "rmse": 2.0})))
    for low, high, words in (
        (-0.3, -0.1, "more data would probably help"),
        (-0.3, 0.1, "this does not show that more data would help"),
        (0.1, 0.3, "more data have not helped"),
    ):
        gap: Any = {"first": "all", "second": "fewer", "form": "plain", "measure": "squared_error",
                    "difference": (low + high) / 2, "low": low, "high": high, "examples": 50}  # fmt: skip
        runs["gains"] = [{"label": "a", "examples": 50, "all": 100, "difference": gap}]
        (section,) = sections(runs)
        assert conclusions(section)[-1].startswith("The RMSE of a with 100 training examples instead of 50 changes by")
        assert conclusions(section)[-1].endswith(f"{words}.")
