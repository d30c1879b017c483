"""A run in Python: what the command line gives, in one line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_a_run_that_another_process_finishes_meanwhile_is_what_it_was_when_it_was_opened(run: dc.Run) -> None:
    opened = dc.Run(run.dir)
    for name in ("results", "weights", "sha256"):
        del opened.info[name]
    opened.info["status"] = "running"  # the finished run.json was written after this one was read
    with pytest.raises(UsageError, match=r"no final weights \(it is running\): resume it first"):
        opened.evaluate()


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
    with pytest.raises(UsageError, match=r"Toy is a class outside the catalogue.*add --class deepcanon\.core\.toy:Toy"):
        dc.Run(tmp_path / "toy").model  # noqa: B018


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda run: run.sample(3), "linear_regression cannot sample; it can predict"),
        (lambda run: run.generate("a"), "linear_regression cannot generate"),
        (lambda run: run.nearest("word"), "linear_regression has no word vectors"),
        (lambda run: run.unwrap("x"), "holds a linear_regression, which wraps no other model"),
        (lambda run: dc.Run("nowhere"), "nowhere is not a run: it has no run.json"),
        (lambda run: dc.Run.train("mlp", target="price"), "the target 'price' belongs to which file?"),
    ],
)
def test_wrong_use_is_one_sentence(run: dc.Run, wrong: Callable[[dc.Run], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        wrong(run)


class Mine(Toy):
    """A model of a user's own."""


def test_a_method_around_a_class_of_ones_own_is_used_by_the_run_that_trained_it(tmp_path: Path) -> None:
    asked = dc.blueprint("noise_injection", {"model": Mine})
    run = dc.Run.train(asked, dc.load_data("moons"), out=tmp_path / "run", steps=3, quiet=True)
    assert isinstance(run.model, dc.methods.NoiseInjection)
    plain = run.unwrap(tmp_path / "plain")
    assert isinstance(plain.model, Mine)


def test_tensors_and_data_sets_are_predicted_and_evaluated(tmp_path: Path) -> None:
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    data = dc.from_tensors(x, (x.sum(1) > 0).long())
    run = dc.Run.train("softmax_regression", data, out=tmp_path / "run", epochs=2, quiet=True)
    assert run.predict(x)["prediction"] == [str(label) for label in run.model.predict(x).tolist()]  # type: ignore[operator]
    assert run.evaluate(data)["train"] == pytest.approx(run.scores["train"])
    assert run.evaluate(data.train)["test"] == pytest.approx(run.scores["train"])
    with pytest.raises(UsageError, match="was trained on data given in Python; say which data to use now"):
        run.evaluate()


def test_nobody_elses_random_numbers_are_drawn(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    dc.Run.train("mlp", "moons", out=tmp_path / "run", steps=2, quiet=True)
    dc.microscope("mlp:hidden=3", "moons")
    dc.insight("linear_regions", "mlp:hidden=3", data="moons", examples=4)
    dc.check(dc.models.MLP, "classifier")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"seed": 10**20}, "seed must be a whole number"),
        ({"lr": "3"}, "lr takes a number, got '3'"),
        ({"lr": True}, "lr takes a number, got True"),
        ({"deterministic": "no"}, "deterministic takes true or false, got 'no'"),
        ({"freeze": 3}, "freeze takes"),
        ({"optimizer": torch.optim.Adam}, "optimizer takes text"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
    ],
)
def test_a_setting_of_a_wrong_type_is_said_before_anything_is_read(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        dc.Run.train("mlp", "nowhere.csv", **wrong)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: dc.fit("mlp", dc.load_data("moons")), "fit trains a model that is built, got 'mlp'"),  # type: ignore[arg-type]
        (lambda: dc.fit(Toy(2), "nowhere"), "nowhere"),
        (lambda: dc.evaluate(Toy(2), dc.load_data("moons")), "evaluate measures on one split"),  # type: ignore[arg-type]
        (lambda: dc.Run.train("mlp", torch.zeros(3, 2)), "mlp learns from labeled examples; tensors gives examples"),
        (lambda: dc.Run.train("mlp", dc.load_data("moons"), target="a"), "belongs to which file"),
        (lambda: dc.study("normalization", nosuch=3), "normalization takes no option 'nosuch'"),
        (lambda: dc.insight("linear_regions", "mlp", data="moons", examples=0), "examples must be at least 1"),
        (lambda: dc.compare(["mlp"], 3), "data are a name, a file or folder, a data frame"),
        (lambda: dc.microscope(Toy(2)), "data are a batch or a tensor"),
        (
            lambda: dc.blueprint(Toy(2), {"features": 3}),
            "the Toy that was given has its arguments already: leave out features",
        ),
    ],
)
def test_what_is_of_the_wrong_kind_is_said_in_one_sentence(wrong: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        wrong()


def test_arguments_given_twice_are_joined_and_a_run_can_be_an_argument(tmp_path: Path) -> None:
    assert dc.blueprint("mlp:hidden=4,dropout=0.5", {"hidden": (9,)}).arguments == {"hidden": (9,), "dropout": 0.5}
    with pytest.raises(UsageError, match="mlp takes no argument nosuch"):
        dc.blueprint("mlp:hidden=4", {"nosuch": 1})
    folder = tmp_path / "runs" / "mlp"
    trained = dc.Run.train("mlp:hidden=3", "moons", out=folder, steps=1, quiet=True).model
    for asked in (dc.blueprint(f"lora:model={folder}"), dc.blueprint("lora", {"model": folder})):
        (inner,) = asked.inner
        assert inner.trained is not None
        assert all(torch.equal(a, b) for a, b in zip(inner.trained.parameters(), trained.parameters(), strict=True))


@pytest.mark.slow
def test_a_finding_and_a_graph_never_replace_what_is_there(tmp_path: Path) -> None:
    finding = dc.study("normalization")
    (picture, _) = finding.save(tmp_path, "a")
    before = picture.read_bytes()
    with pytest.raises(UsageError, match="is already there"):
        finding.save(tmp_path, "a")
    assert finding.save(tmp_path, "b")[0].read_bytes() == before, "a figure can be saved again"
    graph = dc.microscope("mlp:hidden=3", "moons")
    graph.save(tmp_path / "g.json")
    with pytest.raises(UsageError, match="is already there"):
        graph.save(tmp_path / "g.json")
    graph.save(tmp_path / "g.json", overwrite=True)


def test_a_run_that_is_not_finished_says_so(tmp_path: Path) -> None:
    run = dc.Run.train("mlp:hidden=3", "moons", out=tmp_path / "run", steps=1, quiet=True)
    run.info.pop("results")
    with pytest.raises(UsageError, match="has no results yet"):
        run.scores  # noqa: B018


def test_samples_of_a_table_are_rows_of_it(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    kinds = random.choice(["bird", "cat"], 300)
    weights = np.where(kinds == "cat", 4000, 100) + random.normal(0, 10, 300)
    ages = [f"{age:.1f}" if age > 2 else "" for age in random.uniform(0, 20, 300)]
    table = tmp_path / "animals.csv"
    rows = zip(kinds, weights, ages, strict=True)
    table.write_text("kind,weight,age\n" + "\n".join(f"{kind},{weight:.1f},{age}" for kind, weight, age in rows) + "\n")
    run = dc.Run.train(dc.blueprint("gaussian_mixture:components=2"), table, out=tmp_path / "run", quiet=True)
    run.sample(500, out=tmp_path / "drawn.csv")
    drawn = list(csv.DictReader((tmp_path / "drawn.csv").read_text().splitlines()))
    assert list(drawn[0]) == ["kind", "weight", "age"]
    assert {row["kind"] for row in drawn} == {"bird", "cat"}
    heavy = [float(row["weight"]) for row in drawn if row["kind"] == "cat"]
    light = [float(row["weight"]) for row in drawn if row["kind"] == "bird"]
    assert np.mean(heavy) == pytest.approx(4000, rel=0.02)
    assert np.mean(light) == pytest.approx(100, abs=60)
    empty = np.mean([row["age"] == "" for row in drawn])
    assert empty == pytest.approx(np.mean([age == "" for age in ages]), abs=0.06)


@pytest.mark.slow
def test_weights_are_saved_and_loaded_in_whatever_layout_they_are_stored(tmp_path: Path) -> None:
    """The convolutions of a U-Net have their channels last."""
    torch.manual_seed(0)
    sizes = {"features": 16, "channels": 1, "height": 4, "width": 4, "network": "unet", "hidden": (8,), "timesteps": 4}
    model = dc.find("ddpm")(**sizes)
    assert not all(parameter.is_contiguous() for parameter in model.parameters())
    dc.fit(model, dc.data.of(torch.rand(8, 1, 4, 4)), out=tmp_path / "run", steps=1, quiet=True, pictures=False)
    again = dc.load(tmp_path / "run").state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(again[name], value), name
