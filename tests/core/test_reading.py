"""Reading options: listed once, refused where no file takes them, and written down with a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.core.reading import Reading, check_names_file, check_reading, names_in, reading_in_words, reading_of


def test_only_known_options_are_taken() -> None:
    assert reading_of({"target": "y", "epochs": 2}) == {"target": "y"}
    assert reading_of({"target": None}) == {}
    with pytest.raises(UsageError, match="data are not read by a 'targets'; did you mean target"):
        check_reading({"targets": "y"})


def test_options_without_a_file_are_refused(tmp_path: Path) -> None:
    check_names_file({"target": "y"}, tmp_path / "a.csv")
    with pytest.raises(UsageError, match="the target 'y' belongs to which file"):
        check_names_file({"target": "y"}, None)


def test_options_are_words_of_the_command_line() -> None:
    assert reading_in_words({"target": "y"}) == ["--target", "y"]
    assert names_in("a, b") == ("a", "b") == names_in(["a", "b"])


def test_a_run_remembers_how_its_file_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{number},{number % 2}\n" for number in range(40)))
    run = dc.Run.train(
        "softmax_regression", path, target="y", out=tmp_path / "run", epochs=1, quiet=True, pictures=False
    )
    saved = json.loads((tmp_path / "run" / "run.json").read_text())["data"]
    assert saved["reading"] == {"target": "y"} == dict(run.data.reading)
    assert set(saved["reading"]) <= set(Reading.__annotations__)
