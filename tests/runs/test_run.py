"""A run in Python: what the command line gives, in one line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import deepcanon as dc
from deepcanon.cli.app import app
from deepcanon.core import UsageError
from deepcanon.core.toy import Toy


def houses(path: Path, rows: int, seed: int) -> Path:
    """A CSV file of sizes and prices, the latter in thousands."""
    random = np.random.default_rng(seed)
    sizes = random.uniform(50, 200, rows)
    lines = [f"{size:.1f},{3.0 * size + random.normal(0, 5):.2f}" for size in sizes]
    path.write_text("size,price\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dc.Run:
    folder = tmp_path_factory.mktemp("runs")
    table = str(houses(folder / "houses.csv", 200, seed=0))
    return dc.Run.train("linear_regression", table, target="price", out=folder / "run", quiet=True)


def test_predictions_are_in_the_units_of_the_table_and_those_of_the_command(run: dc.Run, tmp_path: Path) -> None:
    new = houses(tmp_path / "new.csv", 5, seed=1)
    columns = run.predict(new)
    sizes = [float(row["size"]) for row in csv.DictReader(new.read_text().splitlines())]
    assert columns["prediction"] == pytest.approx([3.0 * size for size in sizes], rel=0.05)
    out = tmp_path / "p.csv"
    result = CliRunner().invoke(app, ["predict", str(run.dir), "--data", str(new), "--out", str(out)])
    assert result.exit_code == 0, result.stderr
    written = [float(row["prediction"]) for row in csv.DictReader(out.read_text().splitlines())]
    assert written == pytest.approx(columns["prediction"], rel=1e-8)
    assert run.predict(new, out=tmp_path / "q.csv") == columns
    assert (tmp_path / "q.csv").read_bytes() == out.read_bytes()


def test_evaluation_is_what_the_training_has_left_and_the_command_prints(run: dc.Run) -> None:
    scores = run.evaluate()
    assert scores["test"] == pytest.approx(run.scores["test"])
    result = CliRunner().invoke(app, ["evaluate", str(run.dir), "--json"])
    assert json.loads(result.stdout.splitlines()[-1])["test"] == pytest.approx(scores["test"])
    assert run.settings["epochs"] == run.info["settings"]["epochs"]


def test_a_model_is_exported_and_loaded_back(run: dc.Run, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    assert run.export(tmp_path / "model.safetensors") is None
    weights = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(value, run.model.state_dict()[name]) for name, value in weights.items())
    with pytest.raises(UsageError, match="is already there"):
        run.export(tmp_path / "model.safetensors")


def test_a_model_of_ones_own_is_trained_loaded_resumed_and_sampled(tmp_path: Path) -> None:
    data = dc.load_data("moons")
    run = dc.Run.train(Toy, data, out=tmp_path / "toy", quiet=True, epochs=2, seed=3)
    again = dc.Run(tmp_path / "toy", Toy)
    assert torch.equal(again.model.state_dict()["mean"], run.model.state_dict()["mean"])
    drawn = again.sample(5, seed=1)
    assert torch.equal(drawn, run.sample(5, seed=1))
    assert drawn.shape == (5, 2)
    assert again.resume(data, quiet=True).scores == run.scores
    with pytest.raises(UsageError, match="there is no model 'Toy'"):
        dc.Run(tmp_path / "toy").model  # noqa: B018


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda run: run.sample(3), "linear_regression cannot sample; it can predict"),
        (lambda run: run.generate("a"), "linear_regression cannot generate"),
        (lambda run: run.nearest("word"), "linear_regression has no word vectors"),
        (lambda run: run.unwrap("x"), "holds a linear_regression, which wraps no other model"),
        (lambda run: dc.Run("nowhere"), "nowhere is not a run: it has no run.json"),
        (lambda run: dc.Run.train("mlp", target="price"), "the target 'price' is a column of which file?"),
    ],
)
def test_wrong_use_is_one_sentence(run: dc.Run, wrong: Callable[[dc.Run], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        wrong(run)
