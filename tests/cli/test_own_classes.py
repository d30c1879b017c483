"""A class of one's own from the command line: everything that a model of the catalogue can, by its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

SOURCE = '''
"""Nets."""
import torch
from torch import Generator, Tensor, nn

import deepcanon as dc


class Net(dc.Model[dc.Labeled]):
    """A network that classifies, and draws noise."""

    def __init__(self, features: int, classes: int, width: int = 8) -> None:
        super().__init__()
        self.features = features
        self.net = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, classes))

    @classmethod
    def example(cls):
        return cls(2, 2), dc.Labeled(torch.randn(8, 2), torch.arange(8) % 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def loss(self, batch: dc.Labeled):
        return {"nll": nn.functional.cross_entropy(self(batch.x), batch.y)}

    @torch.no_grad()
    def predict(self, x: Tensor, how: str = "mode", generator: Generator | None = None) -> Tensor:
        shares = self(x).softmax(-1)
        return shares if how == "mean" else shares.argmax(-1)

    def sample(self, n: int, *, context=None, generator: Generator | None = None) -> Tensor:
        return torch.randn(n, self.features, generator=generator)


class Bare(Net):
    def __init__(self, features, classes, width=4):
        super().__init__(features, classes, width)


def plain():
    return dc.PlainModule(nn.Linear(2, 2), nn.CrossEntropyLoss())
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "nets.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def run(file: Path, call: Call) -> Path:
    """A run of the class, trained by the command line."""
    folder = file.parent / "run"
    done = call("train", f"{file}:Net", "--data", "moons", "--width", "5", "--epochs", "2", "--out", folder, "--json")
    assert done.code == 0, done.stderr
    assert done.json["model"] == "Net"
    return folder


def test_a_run_of_an_own_class_can_all_that_others_can(call: Call, file: Path, run: Path, tmp_path: Path) -> None:
    own = ("--class", f"{file}:Net")
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
        assert f"if you trust {file}, add --class {file}:Net" in refused.stderr


def test_an_own_class_is_looked_into_untrained(call: Call, file: Path, tmp_path: Path) -> None:
    done = call("microscope", f"{file}:Net", "--data", "moons", "--width", 3, "--out", tmp_path / "g.json", "--json")
    assert (done.code, done.json["model"]) == (0, "Net")
    shown = call("show", f"{file}:Net").stdout
    assert "A network that classifies, and draws noise." in shown
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
        (("evaluate", "{run}", "--class", "{file}:Bare"), "holds Net, and no Bare"),
        (("evaluate", "{run}", "--class", "{file}:Absent"), "{file} has no Absent; it has Net, Bare, plain"),
        (("evaluate", "{run}", "--class", "no_such_module:Net"), "there is no module 'no_such_module'"),
        (("train", "no_such_file.py:Net"), "there is no file no_such_file.py"),
    ],
)
def test_what_is_wrong_is_said(call: Call, file: Path, run: Path, words: tuple[str, ...], sentence: str) -> None:
    done = call(*(word.format(file=file, run=run) for word in words))
    assert done.code == 2
    assert sentence.format(file=file) in done.stderr
