"""The demonstration is a small comparison, whose report it names at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepcanon.cli import demo

Call = Callable[..., Any]


@pytest.mark.slow
def test_it_ends_by_naming_the_report(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "MODELS", ("gaussian", "ppca"))
    monkeypatch.chdir(tmp_path)
    shown = call("demo").stdout
    report = Path("runs/demo/report.html")
    assert f"The report is {report}" in shown.strip().splitlines()[-1]
    assert "<html" in report.read_text()
    assert call("demo", "--json").json["out"] == "runs/demo-2"  # a second demonstration leaves the first alone


def test_every_model_is_there_and_learns_from_the_data(call: Call) -> None:
    models = {model["name"] for model in call("list", "--json").json["models"]}
    assert {name.partition(":")[0] for name in demo.MODELS} <= models
    assert demo.DATA in {row["name"] for row in call("data", "--json").json["data"] if row["here"]}
