"""Insights on the command line: those into tables, and what a refused one leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepcanon.questions import insight

Call = Callable[..., Any]


def test_a_refused_insight_leaves_no_empty_folder(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--out", "found"]):
        refused = call("insight", "receptive_field", "mlp", "--data", "digits", *more)
        assert refused.code == 2
        assert "convolution" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="session")
def payments(tmp_path_factory: pytest.TempPathFactory, call: Call, frauds: Path) -> Path:
    """A run of a table, in a folder with new rows that have no target."""
    folder = tmp_path_factory.mktemp("payments")
    trained = call("train", "logistic_regression", "--data", frauds, "--target", "kind", "--out", folder / "run")
    assert trained.code == 0, trained.stderr
    lines = frauds.read_text().splitlines()[:200]
    (folder / "new.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    (folder / "labeled.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.slow
def test_the_columns_that_a_model_rests_on_are_asked_of_its_run(call: Call, payments: Path, tmp_path: Path) -> None:
    words = ("insight", "permutation_importance", payments / "run", "--repeats", 2, "--json")
    own = call(*words, "--out", tmp_path / "own")
    assert own.code == 0, own.stderr
    assert own.json["numbers"]["rows"] == 300  # the whole test split, not the usual 128 examples
    assert {column["name"] for column in own.json["numbers"]["columns"]} == set("abcdef")
    few = call(*words, "--data", payments / "labeled.csv", "--examples", 50, "--out", tmp_path / "few")
    assert few.json["numbers"]["rows"] == 50
    refused = call(*words, "--data", payments / "new.csv", "--out", tmp_path / "new")
    assert refused.code == 2
    assert "does not have the column 'kind'" in refused.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "more"), [("partial_dependence", ("--columns", "a,b")), ("input_gradients", ())])
def test_new_rows_need_no_target_where_none_is_used(
    call: Call, payments: Path, tmp_path: Path, name: str, more: tuple[str, ...]
) -> None:
    words = ("insight", name, payments / "run", "--data", payments / "new.csv", "--label", "fraud", *more)
    found = call(*words, "--out", tmp_path / "found", "--json")
    assert found.code == 0, found.stderr
    assert found.json["numbers"]["rows"] == 199
    assert "the probability of fraud" in found.json["says"][0]


def test_what_is_not_a_table_has_no_columns(call: Call, runs: Path, tmp_path: Path) -> None:
    refused = call("insight", "permutation_importance", runs / "mlp", "--out", tmp_path / "found")
    assert refused.code == 2
    assert "models of tables" in refused.stderr
    refused = call("insight", "input_gradients", runs / "vae", "--out", tmp_path / "found")
    assert refused.code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_table_in_python_needs_no_file() -> None:
    found = insight("partial_dependence", "linear_regression", data="diabetes")
    assert [column["name"] for column in found.numbers["columns"]] != []
    assert found.numbers["rows"] == 88
