"""Lists of models, data sets and runs."""

from __future__ import annotations

import re
import shutil
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
    assert f"damaged: {tmp_path / 'broken' / 'run.json'} is damaged: it is not JSON" in call("runs", tmp_path).stdout


def test_a_run_that_has_lost_its_description_is_still_named(call: Call, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "mlp", tmp_path / "deep" / "lost")
    (tmp_path / "deep" / "lost" / "run.json").unlink()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / ".beginning").touch()
    (tmp_path / "mine" / "pictures").mkdir(parents=True)
    begun, lost = call("runs", tmp_path, "--json").json["runs"]
    assert (begun["status"], lost["status"]) == ("broken off", "damaged")
    assert "it has no run.json, though it holds log.jsonl and checkpoints and model.safetensors" in lost["problem"]
    table = call("runs", tmp_path).stdout
    assert lost["problem"] in table
    assert "begun was broken off before its first checkpoint" in table


def test_a_folder_without_runs(call: Call, tmp_path: Path) -> None:
    assert "There are no runs in" in call("runs", tmp_path).stdout
    assert call("runs", tmp_path, "--json").json == {"runs": []}
    nowhere = call("runs", tmp_path / "nowhere")
    assert nowhere.code == 2
    assert "there is no folder" in nowhere.stderr


def test_a_loss_that_is_one_term_is_not_printed_twice(call: Call, runs: Path) -> None:
    for words in (["evaluate", runs / "mlp"], ["runs", runs / "mlp"]):
        shown = call(*words)
        assert shown.code == 0
        assert re.search(r"\bnll\b", shown.stdout)
        assert not re.search(r"\bloss\b", shown.stdout), shown.stdout
    assert call("evaluate", runs / "mlp", "--json").json["test"]["loss"] > 0, "programs find it where it was"


def test_a_loss_of_several_terms_is_printed(call: Call, runs: Path) -> None:
    assert re.search(r"^ loss +\d", call("evaluate", runs / "vae").stdout, re.MULTILINE)


def test_runs_and_their_results_fit_into_80_columns(call: Call, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["runs", runs], ["evaluate", runs / "mlp"]):
        wide = call(*words).stdout
        monkeypatch.setenv("COLUMNS", "80")
        narrow = call(*words).stdout
        monkeypatch.delenv("COLUMNS")
        assert [line for line in narrow.splitlines() if len(line) > 80 and len(line.split()) > 1] == []
        assert {word.rstrip(":;") for word in narrow.split()} - {word.rstrip(":;") for word in wide.split()} <= {
            word for word in narrow.split() if set(word) == {"─"}
        }
