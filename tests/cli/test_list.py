"""Lists of models, data sets and runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deepcanon import catalogue
from deepcanon.data import load_data

Call = Callable[..., Any]


def test_every_model_is_listed_with_its_family_and_first_sentence(call: Call) -> None:
    models = call("list", "--json").json["models"]
    assert [model["name"] for model in models] == [entry.name for entry in catalogue.entries()]
    assert all(model["summary"].endswith(".") for model in models)
    table = call("list").stdout
    assert all(model["name"] in table and model["summary"] in table for model in models)


def test_a_family_is_listed_alone(call: Call) -> None:
    models = call("list", "--family", "variational", "--json").json["models"]
    assert "vae" in [model["name"] for model in models]
    assert {model["family"] for model in models} == {"variational"}
    wrong = call("list", "--family", "variatonal")
    assert wrong.code == 2
    families = sorted({entry.family for entry in catalogue.entries()})
    assert wrong.stderr == f"deepcanon: there is no family 'variatonal'; there are {', '.join(families)}\n"


def test_data_sets_are_listed_as_they_are(call: Call) -> None:
    rows = {row["name"]: row for row in call("data", "--json").json["data"]}
    assert {"digits", "moons", "rings", "eight-gaussians", "text", "karate", "mnist", "fashion-mnist"} <= rows.keys()
    for name in ("digits", "eight-gaussians"):
        data, row = load_data(name), rows[name]
        assert [row["train"], row["valid"], row["test"]] == [
            len(data.split(part)) for part in ("train", "valid", "test")
        ]
        assert tuple(row["shape"]) == data.shape
        assert row["here"]
    table = call("data").stdout
    assert "1x8x8" in table
    assert "scikit-learn" in table


def test_data_that_are_not_here_say_how_to_get_them(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "250")
    lines = {line.split()[0]: line for line in call("data").stdout.splitlines() if line.strip()}
    assert "to be downloaded" in lines["mnist"]
    assert "not in $DEEPCANON_DATA/binarized-mnist" in lines["binarized-mnist"]


def test_runs_are_compared_by_data_set(call: Call, runs: Path) -> None:
    listed = call("runs", runs, "--json").json["runs"]
    assert [(row["data"], row["model"]) for row in listed] == [
        ("digits", "mlp"),
        ("digits", "vae"),
        ("digits:binary", "hopfield"),
        ("eight-gaussians", "gan"),
    ]
    assert all(row["status"] == "finished" for row in listed)
    measured = call("evaluate", runs / "mlp", "--json").json
    assert listed[0]["test"] == measured["test"]
    table = call("runs", runs).stdout
    assert table.index("digits: measured on test data") < table.index("digits:binary: measured on test data")
    assert f"{measured['test']['accuracy']:.4g}" in table


def test_a_damaged_run_does_not_hide_the_others(call: Call, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "mlp").symlink_to(runs / "mlp")
    (broken, *_) = call("runs", tmp_path, "--json").json["runs"]
    assert broken["status"] == "damaged"
    assert "damaged" in call("runs", tmp_path).stdout


def test_a_folder_without_runs(call: Call, tmp_path: Path) -> None:
    assert "There are no runs in" in call("runs", tmp_path).stdout
    assert call("runs", tmp_path, "--json").json == {"runs": []}
    nowhere = call("runs", tmp_path / "nowhere")
    assert nowhere.code == 2
    assert "there is no folder" in nowhere.stderr
