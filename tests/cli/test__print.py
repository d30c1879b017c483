"""People get tables, programs get JSON; neither is disturbed by odd names and odd numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deepcanon.cli._print import Output
from deepcanon.core.files import as_json


def test_json_stands_alone_and_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True)
    out.say("words")
    out.table(["a"], [[1]])
    out.result({"run": Path("a/b"), "test": {"loss": float("nan"), "nll": float("-inf"), "n": 3}, "parts": (1.5, True)})
    printed = capsys.readouterr().out
    assert "NaN" not in printed
    assert json.loads(printed) == {"run": "a/b", "test": {"loss": None, "nll": None, "n": 3}, "parts": [1.5, True]}


def test_people_see_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    long = "x" * 150
    out.say(f"[red]data[/red] :smile: {long}")
    out.table(["name", "value"], [("[bold]b[/]", 0.123456), (long, None)], numbers=["value"])
    out.result({"a": 1})
    printed = capsys.readouterr().out
    assert f"[red]data[/red] :smile: {long}\n" in printed
    assert "[bold]b[/]" in printed
    assert "0.1235" in printed
    assert long in printed.split("\n", 1)[1], "a pipe has no width to fold a table to"
    assert "{" not in printed


def test_of_several_processes_only_the_first_speaks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    for as_object in (True, False):
        out = Output(as_object)
        out.say("words")
        out.table(["a"], [[1]])
        out.result({"a": 1})
    assert capsys.readouterr().out == ""


def test_whole_numbers_and_truth_stay_what_they_are() -> None:
    assert as_json([1, True, "a", None, 0.5]) == [1, True, "a", None, 0.5]
