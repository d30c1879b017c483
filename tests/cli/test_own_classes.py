"""A class of one's own from the command line: everything that a model of the catalogue can, by its file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core.named_code import load_named

Call = Callable[..., Any]

PAGE = (Path(__file__).parents[2] / "docs" / "own-models.md").read_text(encoding="utf-8")
NET, PLAIN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
"""The class and the training that the documentation shows."""

MORE = """

class Bare(Net):
    def __init__(self, features, classes, width=4):
        super().__init__(features, classes, width)


class Drawing(Net):
    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return torch.randn(n, 2, generator=generator)


def plain():
    return dc.PlainModule(nn.Linear(2, 2), nn.CrossEntropyLoss())
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "nets.py"
    path.write_text(NET + MORE)
    return path


@pytest.fixture(scope="module")
def run(file: Path, call: Call) -> Path:
    """A run of the class, trained by the command line."""
    folder = file.parent / "run"
    done = call(
        "train", f"{file}:Drawing", "--data", "moons", "--width", "5", "--epochs", "2", "--out", folder, "--json"
    )
    assert done.code == 0, done.stderr
    assert done.json["model"] == "Drawing"
    return folder


@pytest.mark.slow
def test_a_run_of_an_own_class_can_all_that_others_can(call: Call, file: Path, run: Path, tmp_path: Path) -> None:
    own = ("--class", f"{file}:Drawing")
    done = call("evaluate", run, *own, "--json")
    assert done.json["test"]["accuracy"] > 0
    commands: dict[tuple[Any, ...], Path] = {
        ("predict", run, "--out", tmp_path / "p.csv"): tmp_path / "p.csv",
        ("sample", run, "--out", tmp_path / "s.csv"): tmp_path / "s.csv",
        ("export", run, "--to", tmp_path / "w.safetensors"): tmp_path / "w.safetensors",
        ("microscope", run, "--out", tmp_path / "g.json"): tmp_path / "g.json",
        ("insight", "curvature", run, "--examples", 8, "--out", tmp_path / "i"): tmp_path / "i" / "curvature.json",
        ("train", "lora", "--model", run, "--data", "moons", "--steps", 1, "--out", tmp_path / "l"): tmp_path / "l",
        ("resume", run): run,
    }
    for command, made in commands.items():
        done = call(*command, *own)
        assert done.code == 0, done.stderr
        assert made.exists()
        refused = call(*command, *(["--overwrite"] if command[0] != "resume" else []))
        assert refused.code == 2
        assert f"if you trust {file}, add --class {file}:Drawing" in refused.stderr


def test_what_the_documentation_shows_is_lawful_and_runs(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [outcome.law for outcome in dc.check(f"{file}:Net") if not outcome.holds]
    assert broken == ["docstring is complete"]  # the form of the leaves of the catalogue, with equations and papers
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text(PLAIN)
    assert load_named("plain.py:again").predict(torch.zeros(1, 2)).shape == (1,)


def test_an_own_class_is_looked_into_untrained(call: Call, file: Path, tmp_path: Path) -> None:
    done = call("microscope", f"{file}:Net", "--data", "moons", "--width", 3, "--out", tmp_path / "g.json", "--json")
    assert (done.code, done.json["model"]) == (0, "Net")
    shown = call("show", f"{file}:Net").stdout
    assert "A network with one hidden layer that classifies." in shown
    assert f"deepcanon train {file}:Net" in shown


def test_arguments_without_annotations_are_read_as_what_they_look_like(call: Call, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "bare"
    done = call("train", f"{file}:Bare", "--data", "moons", "--steps", 1, "--width", 6, "--out", out)
    assert done.code == 0, done.stderr
    assert call("evaluate", out, "--class", f"{file}:Bare", "--json").json["parameters"] == 3 * 6 + 7 * 2
    wrong = call("train", f"{file}:Bare", "--widht", 6)
    assert "Bare takes no --widht; did you mean --width?" in wrong.stderr


def test_a_function_makes_a_plain_module_with_its_loss(call: Call, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "plain"
    done = call("train", f"{file}:plain", "--data", "moons", "--steps", 2, "--out", out, "--json")
    assert done.code == 0, done.stderr
    assert call("evaluate", out, "--class", f"{file}:plain", "--json").json["test"] == pytest.approx(done.json["test"])
    assert "give PlainModule(module, loss)" in call("evaluate", out).stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("train", "{file}"), "which class of {file}? Write {file}:Class"),
        (("train", "{file}:plain", "--width", "3"), "has its arguments already: leave out --width"),
        (("train", "mlp", "--class", "{file}:Net"), "--class names a class of a run, and no run is named here"),
        (("insight", "linear_regions", "mlp", "--class", "{file}:Net"), "no run is named here: leave it out"),
        (("insight", "filters", "--data", "digits", "--class", "{file}:Net"), "no run is named here: leave it out"),
        (("evaluate", "{run}", "--class", "{file}:Bare"), "holds Drawing, and no Bare"),
        (("evaluate", "{run}", "--class", "{file}:Absent"), "{file} has no Absent; it has Net, Bare, Drawing, plain"),
        (("evaluate", "{run}", "--class", "no_such_module:Net"), "there is no module 'no_such_module'"),
        (("train", "no_such_file.py:Net"), "there is no file no_such_file.py"),
    ],
)
def test_what_is_wrong_is_said(call: Call, file: Path, run: Path, words: tuple[str, ...], sentence: str) -> None:
    done = call(*(word.format(file=file, run=run) for word in words))
    assert done.code == 2
    assert sentence.format(file=file) in done.stderr
