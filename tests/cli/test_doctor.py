from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deepcanon.cli.app import app

run = CliRunner()

NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(1))
"""


@pytest.mark.slow
def test_a_healthy_model_ends_with_0_and_says_so() -> None:
    done = run.invoke(app, ["doctor", "softmax_regression", "--data", "moons"])
    assert done.exit_code == 0, done.output
    assert "nothing found" in done.output


@pytest.mark.slow
def test_an_ill_module_of_the_users_ends_with_1_and_leaves_a_report(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(NET)
    words = ["doctor", f"{file}:Net", "--data", "moons", "--loss", "CrossEntropyLoss", "--out", str(tmp_path / "d")]
    done = run.invoke(app, [*words, "--json"])
    assert done.exit_code == 1
    found = json.loads(done.output.splitlines()[-1])
    assert [each["cause"] for each in found["faults"]] == ["softmax before cross-entropy"]
    assert (tmp_path / "d" / "doctor.html").read_text().startswith("<!doctype html>")


def test_a_check_is_explained() -> None:
    done = run.invoke(app, ["doctor", "--explain", "split-overlap"])
    assert done.exit_code == 0
    assert "https://doi.org/" in done.output
    assert "learning_rate" in run.invoke(app, ["doctor", "--explain", "all"]).output


@pytest.mark.parametrize("words", [[], ["no_such_model"], ["mlp", "--data", "moons", "--loss", "NoSuchLoss"]])
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    assert run.invoke(app, ["doctor", *words]).exit_code == 2
