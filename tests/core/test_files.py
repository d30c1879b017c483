"""Results never replace what is there unless that is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepcanon.core import UsageError
from deepcanon.core.files import free, with_folder, writable
from deepcanon.runs.run import folder_for


def test_a_taken_name_gets_the_next_number(tmp_path: Path) -> None:
    base = tmp_path / "a.b"
    assert free(base) == base
    base.mkdir()
    (tmp_path / "a.b-2").mkdir()
    assert free(base) == tmp_path / "a.b-3"


def test_a_run_is_named_after_model_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder_for("mlp", "digits:binary") == Path("runs/mlp-digits-binary")
    assert folder_for("mlp", "some/where/my houses.csv") == Path("runs/mlp-my-houses")
    Path("runs/mlp-digits").mkdir(parents=True)
    assert folder_for("mlp", "digits") == Path("runs/mlp-digits-2")
    assert folder_for("mlp", "digits", taken=True) == Path("runs/mlp-digits")


def test_a_file_is_only_replaced_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "new" / "table.CSV"
    assert writable(path, False, ".csv") == path
    assert not path.parent.exists(), "what is refused later leaves no empty folder"
    with_folder(path).touch()
    with pytest.raises(UsageError, match="is already there: choose another name, or add --overwrite"):
        writable(path, False, ".csv")
    assert writable(path, True, ".csv") == path


def test_what_cannot_be_written_is_said_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"x\.gif must end in \.png or \.csv"):
        writable(tmp_path / "x.gif", False, ".png", ".csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        writable(tmp_path / "folder.csv", True, ".csv")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file is a file, not a folder"):
        writable(tmp_path / "file" / "x.csv", False, ".csv")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="nothing can be written to the folder"):
        writable(tmp_path / "x.csv", False, ".csv")
