"""A model of two domains from the command line: trained, evaluated, resumed, and its mapping written to a file."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import UsageError

Call = Callable[..., Any]


def read(path: Path) -> torch.Tensor:
    with path.open(newline="") as file:
        return torch.tensor([[float(value) for value in row.values()] for row in csv.DictReader(file)])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    folder = tmp_path_factory.mktemp("domains") / "run"
    trained = call("train", "cyclegan", "--hidden", "8", "--steps", "6", "--out", folder, "--threads", "1")
    assert trained.code == 0, trained.stderr
    return folder


def test_left_to_itself_the_model_gets_two_domains(run: Path) -> None:
    opened = dc.Run(run)
    assert opened.info["data"]["name"] == "two-domains"
    assert "pair_distance" in opened.scores["test"]
    assert "pair_distance" not in opened.scores["train"]  # training examples are not paired


def test_evaluation_repeats_what_the_training_has_measured(run: Path, call: Call) -> None:
    answer = call("evaluate", run, "--json").json
    assert answer["test"] == pytest.approx(dc.Run(run).scores["test"])


def test_mappings_of_either_way_are_written(run: Path, call: Call, tmp_path: Path) -> None:
    model: Any = dc.load(run)
    test = dc.load_data("two-domains").split("test")
    for to, source, words in (("y", test.x, ()), ("y", test.x, ("--to", "y")), ("x", test.y, ("--to", "x"))):
        out = tmp_path / "out.csv"
        answer = call("predict", run, "--out", out, *words, "--overwrite", "--json").json
        assert answer["columns"] == [f"{to}1", f"{to}2"]
        assert torch.equal(read(out), model.map(source, to=to).detach())
    columns = dc.Run(run).predict(test.x[:3], to="y")
    torch.testing.assert_close(torch.tensor([columns["y1"], columns["y2"]]).T, model.map(test.x[:3]).detach())


def test_what_does_not_map_refuses_a_domain(runs: Path, run: Path, call: Call, tmp_path: Path) -> None:
    answer = call("predict", runs / "mlp", "--to", "x", "--out", tmp_path / "x.csv")
    assert answer.code == 2
    assert "mlp does not map examples to another domain; leave out --to" in answer.stderr
    answer = call("predict", run, "--to", "z", "--out", tmp_path / "x.csv")
    assert answer.code == 2
    answer = call("sample", run, "--out", tmp_path / "x.csv")
    assert "cyclegan cannot sample; it can map" in answer.stderr


def test_other_data_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match="cyclegan learns from two domains; moons gives points"):
        dc.Run.train("cyclegan", "moons")
    with pytest.raises(UsageError, match="gan learns from examples; two-domains gives two domains"):
        dc.Run.train("gan", "two-domains")


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_classes_of_images_are_domains_and_their_mapping_is_drawn(call: Call, tmp_path: Path) -> None:
    words = ("--hidden", "8", "--steps", "3", "--threads", "1", "--out", tmp_path / "run")
    trained = call("train", "cyclegan", "--data", "digits:domains=3/8", *words)
    assert trained.code == 0, trained.stderr
    assert {path.name for path in (tmp_path / "run" / "pictures").iterdir()} == {"curves.png", "mapping.png"}
    answer = call("predict", tmp_path / "run", "--out", tmp_path / "out.csv", "--json").json
    assert answer["rows"] == int((dc.load_data("digits").split("test").y == 3).sum())
