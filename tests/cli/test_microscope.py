"""The command that shows every number of a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_an_untrained_model_by_name(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "graph.html"
    answer = call("microscope", "mlp", "--data", "moons", "--hidden", "4", "--examples", "3", "--out", out, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["mismatches"] == []
    assert answer.json["checks"] == {"each operation": True, "the whole": True, "torch.autograd": True}
    assert out.read_text().startswith("<!doctype html>")


def test_a_trained_model_by_its_folder_and_the_numbers_as_json(call: Call, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "graph.json"
    answer = call("microscope", runs / "vae", "--out", out)
    assert answer.code == 0, answer.stderr
    assert "encoder.0: linear" in answer.stdout
    assert "holds  torch.autograd" in answer.stdout
    graph = json.loads(out.read_text())
    assert graph["title"] == "vae on digits"
    assert {node["name"] for node in graph["nodes"]} >= {"x", "encoder.0.weight", "decoder.likelihood.log_scale"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mpl", "--out", "a.html"], "there is no model 'mpl'; did you mean mlp?"),
        (["mlp", "--out", "a.png"], "a.png must end in .html or .json"),
        (["mlp", "--data", "karate", "--out", "a.html"], "mlp learns from labeled examples"),
        (["mlp", "--hiden", "3", "--out", "a.html"], "mlp takes no --hiden; did you mean --hidden?"),
        (["mlp", "--target", "y", "--out", "a.html"], "the target 'y' belongs to which file?"),
        (["--out", "a.html"], "Missing argument 'NAME|DIR'"),
    ],
)
def test_wrong_use_is_one_sentence(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = call("microscope", *words)
    assert answer.code == 2
    assert sentence in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "a.html").exists()


def test_nothing_is_overwritten_unasked(call: Call, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "graph.html"
    out.write_text("mine")
    refused = call("microscope", runs / "mlp", "--out", out)
    assert refused.code == 2
    assert "already there" in refused.stderr
    assert out.read_text() == "mine"
    assert call("microscope", runs / "mlp", "--out", out, "--overwrite").code == 0
    assert out.read_text() != "mine"


def test_a_trained_model_takes_no_arguments(call: Call, runs: Path, tmp_path: Path) -> None:
    answer = call("microscope", runs / "mlp", "--hidden", "3", "--out", tmp_path / "a.html")
    assert (answer.code, "leave out --hidden" in answer.stderr) == (2, True)
