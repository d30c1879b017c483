"""The demonstration trains, compares, and leaves a page on which every picture is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepcanon.cli import demo

Call = Callable[..., Any]


@pytest.mark.slow
def test_the_page_shows_every_picture_of_every_run(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = tuple(job for job in demo.JOBS if job.model in ("softmax_regression", "hopfield"))
    monkeypatch.setattr(demo, "JOBS", quick)
    monkeypatch.chdir(tmp_path)
    answer = call("demo", "--json").json
    assert answer["folder"] == "runs/demo"
    assert [run["model"] for run in answer["runs"]] == ["softmax_regression", "hopfield"]
    assert answer["runs"][0]["value"] >= 0.95
    assert answer["runs"][1]["value"] >= 0.9
    page = Path(answer["page"])
    shown = set(re.findall(r'<img src="([^"]+)"', page.read_text()))
    there = {path.relative_to(page.parent).as_posix() for path in page.parent.rglob("*.png")}
    assert shown == there
    assert len(there) >= 4
    taken = call("demo", "--out", "runs/demo")
    assert taken.code == 2
    assert "runs/demo is already there" in taken.stderr


def test_every_job_is_about_a_model_and_data_that_are_there(call: Call) -> None:
    models = {model["name"] for model in call("list", "--json").json["models"]}
    data = {row["name"] for row in call("data", "--json").json["data"] if row["here"]}
    for job in demo.JOBS:
        assert job.model in models
        assert job.data.partition(":")[0] in data
