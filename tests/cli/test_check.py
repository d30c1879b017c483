"""Anyone's module is held to the laws; the exit code says whether it keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepcanon.laws.apart import outcomes

Call = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(
        "from torch import nn\n"
        "class Right(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(4, 3)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x)\n"
        "class Squashed(Right):\n"
        "    def forward(self, x):\n"
        "        return self.layer(x).softmax(-1)\n"  # probabilities, where the loss expects logits
    )
    return path


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks in this process, which has torch loaded already."""
    monkeypatch.setattr("deepcanon.core.apart.call_apart", lambda _, *arguments, **limits: outcomes(*arguments))


@pytest.mark.parametrize(("line", "sentence"), [("import os; os._exit(0)", "ended the process with the exit code 0")])
def test_a_file_that_ends_the_process_is_not_passed(call: Call, tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "mine.py").write_text(line)
    answer = call("check", f"{tmp_path / 'mine.py'}:Net")
    assert answer.code == 1
    assert sentence in answer.stderr


@pytest.mark.usefixtures("_at_once")
def test_a_file_that_exits_when_it_is_imported_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys; sys.exit(0)")
    answer = call("check", f"{tmp_path / 'mine.py'}:Net")
    assert answer.code == 2
    assert "calls sys.exit(0) when it is imported" in answer.stderr


@pytest.mark.usefixtures("_at_once")
def test_a_module_that_keeps_the_laws(call: Call, file: Path) -> None:
    answer = call("check", f"{file}:Right", "--as", "classifier", "--json")
    assert answer.code == 0
    assert answer.json["failed"] == 0
    assert len(answer.json["outcomes"]) > 5


@pytest.mark.usefixtures("_at_once")
def test_a_module_that_breaks_one_is_told_which_and_by_how_much(call: Call, file: Path) -> None:
    answer = call("check", f"{file}:Squashed", "--as", "classifier", "--json")
    assert answer.code == 1
    first = answer.json["outcomes"][0]
    assert not first["holds"], "what fails stands first"
    assert first["measured"] > first["bound"]
    people = call("check", f"{file}:Squashed", "--as", "classifier")
    assert people.code == 1
    assert "FAILS" in people.stdout
    assert first["law"] in people.stdout
    assert first["detail"] in people.stdout


@pytest.mark.usefixtures("_at_once")
def test_wrong_usage(call: Call, file: Path) -> None:
    for words, sentence in (
        (("check", f"{file}:Wrong"), "has no Wrong"),
        (("check", "nowhere.py:Net"), "there is no file nowhere.py"),
        (("check", f"{file}:Right", "--as", "clasifier"), "there is no kind 'clasifier'"),
        (("check", str(file)), "FILE.py:Name"),
    ):
        answer = call(*words)
        assert answer.code == 2
        assert sentence in answer.stderr
        assert answer.stderr.count("\n") == 1
