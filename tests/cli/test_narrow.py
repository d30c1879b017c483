"""In a terminal of 80 columns no command breaks a word or runs over the edge."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from deepcanon import catalogue
from deepcanon.cli.app import app

Call = Callable[..., Any]

COMMANDS = sorted(str(command.name) for command in app.registered_commands)
LISTS = [["list"], ["data"], ["data", "digits"], ["insight"], ["study"], ["show", "mlp"], ["show", "bagging"]]
HELPS = [["--help"], *([command, "--help"] for command in COMMANDS), ["train", "vae", "--help"]]


def words_of(text: str) -> set[str]:
    """The words of a text without the frames around it; what stands below its row has a colon after its name."""
    return {word.rstrip(":;") for word in re.sub(r"[│╭╮╰╯─]", " ", text).split()}


def check(narrow: str, wide: str) -> None:
    too_long = [line for line in narrow.splitlines() if len(line) > 80 and len(line.split()) > 1]
    assert too_long == []
    assert words_of(narrow) == words_of(wide)


def in_columns(call: Call, monkeypatch: pytest.MonkeyPatch, columns: int, words: list[Any]) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", columns)
    answer = call(*words)
    assert answer.code == 0, answer.stderr
    text: str = answer.stdout
    return text


@pytest.mark.parametrize("words", [*LISTS, *HELPS], ids=" ".join)
def test_words_stay_whole_at_80_columns(words: list[str], call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    check(in_columns(call, monkeypatch, 80, words), in_columns(call, monkeypatch, 600, words))


def test_what_is_shown_of_an_entry_fits(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [*catalogue.entries(), *(entry for kind in catalogue.FOLDERS for entry in catalogue.questions(kind))]
    for entry in entries[::9]:
        shown = in_columns(call, monkeypatch, 80, ["show", entry.name])
        assert [line for line in shown.splitlines() if len(line) > 80 and len(line.split()) > 1] == [], entry.name
        assert "\\" not in shown, entry.name
