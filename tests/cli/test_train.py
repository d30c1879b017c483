"""Training from the command line is training in Python, and everything wrong is said before it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core import AnyBatch, Labeled, Model, Terms
from deepcanon.core.turn import B
from deepcanon.data import load_rows
from deepcanon.runs.folder import RunFolder

Call = Callable[..., Any]
KEYS = {
    "run", "model", "data", "parameters", "steps", "seconds", "weights", "train", "valid", "test", "baseline",
    "by_class", "says",
}  # fmt: skip


class Scaled(Model[B]):
    """A method: it learns as the model it wraps does, from a loss times a factor."""

    def __init__(self, model: Model[Any], factor: float) -> None:
        super().__init__()
        self.model = model
        self.factor = factor

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        model, batch = catalogue.find("mlp").example()
        return cls(model, 2.0), batch

    def loss(self, batch: AnyBatch) -> Terms:
        return {name: self.factor * value for name, value in self.model.loss(batch).items()}


@pytest.fixture
def findable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    point = EntryPoint("scaled", f"{__name__}:Scaled", catalogue.GROUP)
    monkeypatch.setattr(catalogue, "_points", lambda: (point,))
    catalogue.entries.cache_clear()
    yield
    catalogue.entries.cache_clear()


def test_the_command_gives_what_the_same_call_in_python_gives(call: Call, tmp_path: Path) -> None:
    words = ["--hidden", "12", "--dropout", "0.1", "--epochs", "2", "--lr", "0.01", "--batch-size", "64", "--seed", "3"]
    answer = call(
        "train", "mlp", "--data", "digits", "--out", tmp_path / "run", *words, "--threads", "1", "--json"
    ).json
    data = dc.load_data("digits")
    torch.manual_seed(3)
    model = dc.find("mlp")(features=64, classes=10, hidden=(12,), dropout=0.1)
    result = dc.fit(model, data, epochs=2, lr=0.01, batch_size=64, seed=3, quiet=True)
    assert answer.keys() == KEYS
    assert answer["test"] == result.test
    assert answer["train"] == result.train
    assert answer["steps"] == result.steps == 2 * 20
    assert answer["parameters"] == 65 * 12 + 13 * 10
    assert (answer["run"], answer["model"], answer["data"]) == (str(tmp_path / "run"), "mlp", "digits")
    again = dc.load(tmp_path / "run")
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_every_setting_reaches_the_trainer(call: Call, tmp_path: Path) -> None:
    settings = {
        "optimizer": "sgd:momentum=0.9", "schedule": "cosine", "clip": "norm:1.0", "accumulate": 2, "ema": 0.9,
        "watch": "accuracy", "patience": 3, "device": "cpu", "precision": "fp32", "checkpoint_every": 4,
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in (f"--{name}".replace("_", "-"), value)]
    words += ["--steps", "6", "--freeze", "net.0.*", "--freeze", "net.2.bias", "--deterministic"]
    answer = call("train", "mlp", "--hidden", "8", "--out", tmp_path / "run", *words)
    assert answer.code == 0, answer.stderr
    kept = RunFolder.open(tmp_path / "run").info["settings"]
    for name, value in settings.items():
        assert kept[name] == value
    assert kept["freeze"] == ["net.0.*", "net.2.bias"]
    assert kept["deterministic"] is True
    assert kept["steps"] == 6


@pytest.mark.slow
def test_people_see_the_measures_and_where_to_look(call: Call, tmp_path: Path) -> None:
    words = ("--data", "digits", "--epochs", "1", "--batch-size", "128", "--out", tmp_path / "run")
    answer = call("train", "softmax_regression", *words)
    assert "softmax_regression on digits: 650 parameters, 10 steps" in answer.stdout
    assert "accuracy" in answer.stdout
    assert f"pictures in {tmp_path / 'run' / 'pictures'}" in answer.stdout.replace("\n", " ")


def test_a_run_without_a_folder_gets_a_free_one(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("train", "softmax_regression", "--data", "moons", "--steps", "1", "--json")
    assert [call(*words).json["run"] for _ in range(2)] == [
        "runs/softmax_regression-moons",
        "runs/softmax_regression-moons-2",
    ]
    assert call(*words, "--overwrite").json["run"] == "runs/softmax_regression-moons"


def test_a_method_wraps_a_model_chosen_by_name(call: Call, tmp_path: Path, findable: None) -> None:
    words = ["--model", "mlp", "--model.hidden", "8,4", "--model.activation", "tanh", "--factor", "2"]
    answer = call("train", "scaled", *words, "--data", "digits", "--epochs", "1", "--out", tmp_path / "run", "--json")
    assert answer.code == 0, answer.stderr
    assert RunFolder.open(tmp_path / "run").info["model"] == {
        "model": "Scaled",
        "arguments": {
            "factor": 2.0,
            "model": {
                "model": "mlp",
                "arguments": {
                    "features": 64, "classes": 10, "targets": None, "hidden": [8, 4], "activation": "tanh",
                    "dropout": 0.0, "head": None, "initialize": None, "pieces": 1,
                },
            },
        },
    }  # fmt: skip
    inner = dc.load(tmp_path / "run").model
    assert isinstance(inner, Model)
    plain = dc.evaluate(inner, dc.load_data("digits").split("test"))
    assert answer.json["test"]["loss"] == pytest.approx(2 * plain["loss"], rel=1e-6)
    wrong = call("train", "scaled", *words, "--data", "karate")
    assert wrong.code == 2
    assert wrong.stderr == "deepcanon: mlp learns from labeled examples; karate gives a graph\n"
    bare = call("train", "scaled", "--factor", "1").stderr
    assert bare == "deepcanon: Scaled needs --model (the name of a model or the folder of a run)\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mlp", "--hiden", "8"], "mlp takes no --hiden; did you mean --hidden?"),
        (["mlp", "--epoch", "8"], "mlp takes no --epoch; did you mean --epochs?"),
        (["mlp", "--hidden", "8,x"], "--hidden takes whole numbers with commas between them, got '8,x'"),
        (["mlp", "--dropout", "2"], "dropout is"),
        (["mlp", "--epochs", "0"], "epochs must be a whole number of at least 1, got 0"),
        (["mlp", "--epochs", "many"], "Invalid value for '--epochs'"),
        (["mlp", "--optimizer", "adamm"], "there is no optimizer 'adamm'; did you mean adam?"),
        (["mlp", "--precision", "fp8"], "there is no precision 'fp8'"),
        (["mlp", "--device", "nowhere"], "the device 'nowhere' cannot be used"),
        (["mlp", "--features", "3"], "features is 64 in digits, but 3 was given"),
        (["mlp", "--data", "digitz"], "there are no data 'digitz'; did you mean digits?"),
        (["mlp", "--data", "missing.csv"], "there is no file missing.csv"),
        (["mlp", "--data", "karate"], "mlp learns from labeled examples; karate gives a graph"),
        (["mlp", "--target", "price"], "the target 'price' belongs to which file? Name a file as the data"),
        (["mlp", "digits"], "what is 'digits'?"),
        (["--hidden", "8", "mlp"], "the name of the model comes first"),
        (["mlp", "--out", "file.txt/run"], "cannot write to the folder file.txt/run"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    words: list[str], sentence: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.txt").touch()
    answer = call("train", *words)
    assert answer.code == 2
    assert answer.stderr.startswith(f"deepcanon: {sentence}")
    assert answer.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"], "nothing is left behind"


def test_a_folder_that_holds_a_run_is_not_overwritten(call: Call, runs: Path) -> None:
    before = (runs / "mlp" / "run.json").read_bytes()
    answer = call("train", "mlp", "--out", runs / "mlp")
    assert answer.code == 2
    assert f"{runs / 'mlp'} already holds run.json" in answer.stderr
    assert (runs / "mlp" / "run.json").read_bytes() == before


def test_a_finished_run_is_evaluated_and_resumed_to_the_same_numbers(call: Call, runs: Path) -> None:
    kept = RunFolder.open(runs / "mlp").info["results"]
    for command in ("evaluate", "resume"):
        answer = call(command, runs / "mlp", "--json").json
        assert answer.keys() == KEYS
        for part in ("train", "valid", "test"):
            assert answer[part] == pytest.approx(kept[part], rel=1e-6)
        assert answer["steps"] == kept["steps"]


def test_other_data_are_evaluated_on_their_test_part(call: Call, runs: Path) -> None:
    answer = call("evaluate", runs / "mlp", "--data", "digits:binary", "--json").json
    assert answer["data"] == "digits:binary"
    assert answer["train"] == {}
    by_hand = dc.evaluate(dc.load(runs / "mlp"), dc.load_data("digits:binary").split("test"))
    assert answer["test"] == pytest.approx(by_hand, rel=1e-6)


def test_data_that_look_different_are_refused(call: Call, runs: Path, tmp_path: Path) -> None:
    answer = call("evaluate", runs / "mlp", "--data", "moons")
    assert answer.code == 2
    assert "the model has learned from examples of shape (1, 8, 8); moons gives (2,)" in answer.stderr
    for command in ("evaluate", "resume"):
        nowhere = call(command, tmp_path)
        assert nowhere.code == 2
        assert "is not a run" in nowhere.stderr


def test_a_file_that_has_changed_since_counts_as_new(call: Call, tmp_path: Path) -> None:
    table, run = tmp_path / "t.csv", tmp_path / "run"
    rows = [f"{i % 7},{i % 3}.5,{'ab'[i % 2]}" for i in range(40)]
    table.write_text("\n".join(["u,v,y", *rows, ""]))
    call("train", "mlp", "--data", table, "--target", "y", "--hidden", "4", "--steps", "2", "--out", run)
    assert call("evaluate", run, "--json").json["train"] != {}
    table.write_text("\n".join(["u,v,y", *reversed(rows), "1,0.5,a", ""]))
    changed = call("evaluate", run)
    assert f"{table} has changed since" in changed.stdout.replace("\n", " ")
    answer = call("evaluate", run, "--json").json
    assert answer["train"] == {}
    saved = RunFolder.open(run).info["data"]["preprocessing"]
    everything = load_rows(str(table), saved)
    assert isinstance(everything, Labeled)
    assert len(everything) == 41
    assert answer["test"] == pytest.approx(dc.evaluate(dc.load(run), everything), rel=1e-6)


def test_numbers_are_learned_from_images_by_a_head_chosen_by_name(call: Call, tmp_path: Path) -> None:
    words = ("--data", "spots", "--hidden", "2", "--steps", "2", "--json")
    answer = call("train", "cnn", "--head", "student_t", *words, "--out", tmp_path / "run")
    assert answer.code == 0, answer.stderr
    arguments = RunFolder.open(tmp_path / "run").info["model"]["arguments"]
    assert (arguments["classes"], arguments["targets"], arguments["head"]) == (None, 2, "student_t")
    assert "nll" in answer.json["test"]
    wrong = call("train", "cnn", "--head", "bernoulli", *words, "--out", tmp_path / "other")
    assert wrong.code == 2
    assert wrong.stderr.startswith("deepcanon: the head BernoulliLikelihood() models other targets than these")


@pytest.mark.slow
@pytest.mark.parametrize("family", [None, "gaussian", "poisson", "gamma", "inverse_gaussian"])
def test_raw_targets_are_fitted_to_the_optimum_without_any_option(
    family: str | None, call: Call, tmp_path: Path
) -> None:
    """With a canonical link, the residuals of the optimum sum to 0 and are orthogonal to every feature."""
    patients = load_diabetes(scaled=False)
    table, names = np.column_stack([patients.data, patients.target]), [*patients.feature_names, "target"]
    file = tmp_path / "patients.csv"
    np.savetxt(file, table, delimiter=",", header=",".join(names), comments="", fmt="%.9g")
    words = ["linear_regression"] if family is None else ["glm", "--family", family]
    rest = ["--target", "target", "--out", tmp_path / "run"]
    assert call("train", *words, "--data", f"{file}:raw", *rest, "--json").code == 0
    run = dc.Run(tmp_path / "run")
    x, y = run.data.train.x.double(), run.data.train.y.double()
    left = y - run.model.double().predict(x, how="mean")  # type: ignore[operator]
    standardized = (x - x.mean(0)) / x.std(0)
    assert abs(float(left.mean() / left.std())) < 1e-4
    assert float((standardized * left / left.std()).mean(0).abs().max()) < 1e-4
    if family in (None, "gaussian"):
        r2 = LinearRegression().fit(x.numpy(), y.numpy()).score(x.numpy(), y.numpy())
        assert 1 - float(left.var() / y.var()) == pytest.approx(r2, abs=1e-6)


def test_final_evaluation_and_pictures_can_be_left_out_and_made_later(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Any, ...]] = []
    monkeypatch.setattr("deepcanon.pictures.draw_run", lambda *given: drawn.append(given))
    words = ["train", "mlp", "--data", "moons", "--hidden", "4", "--epochs", "1", "--threads", "1"]
    quick = call(*words, "--out", tmp_path / "quick", "--no-evaluate", "--no-pictures")
    assert quick.code == 0, quick.stderr
    assert f"It was not evaluated; to do so: deepcanon evaluate {tmp_path / 'quick'}" in quick.stdout
    assert not drawn
    run = dc.Run(tmp_path / "quick")
    assert run.info["status"] == "finished"
    assert run.scores == {"train": {}, "valid": {}, "test": {}}
    whole = call(*words, "--out", tmp_path / "whole", "--json").json
    listed = call("runs", tmp_path)
    assert listed.code == 0
    assert "quick" in listed.stdout
    assert [row["test"] for row in call("runs", tmp_path, "--json").json["runs"]] == [{}, whole["test"]]
    later = call("evaluate", tmp_path / "quick", "--pictures", "--json").json
    assert {name: later[name] for name in ("train", "valid", "test", "baseline")} == {
        name: whole[name] for name in ("train", "valid", "test", "baseline")
    }
    at_end, afterwards = drawn
    assert [at_end[3], afterwards[3]] == [tmp_path / name / "pictures" for name in ("whole", "quick")]
    assert [record["step"] for record in at_end[2]] == [record["step"] for record in afterwards[2]] != []
    assert call("resume", tmp_path / "quick", "--json").json["test"] == {}
    refused = call(*words, "--out", tmp_path / "both", "--no-evaluate", "--evaluate-all")
    assert refused.code == 2
    assert "evaluate=False for none; leave out one of them" in refused.stderr


def test_a_fit_without_evaluation_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepcanon.train.health.examine", lambda *given: pytest.fail("it was evaluated"))
    model, batch = catalogue.find("mlp").example()
    result = dc.fit(model, dc.from_tensors(batch.x, batch.y), quiet=True, steps=2, evaluate=False)
    assert (result.train, result.test, result.baseline, result.says) == ({}, {}, None, [])


def test_few_labels_are_not_compared_with_baselines_unless_evaluated(call: Call, tmp_path: Path) -> None:
    words = [
        "--data",
        "moons:labels=6",
        "--model",
        "mlp",
        "--model.hidden",
        "4",
        "--steps",
        "2",
        "--out",
        tmp_path / "r",
    ]
    trained = call("train", "pi-model", *words, "--no-evaluate", "--no-pictures")
    assert trained.code == 0, trained.stderr
    assert "baselines" not in dc.Run(tmp_path / "r").info
    assert "To compare" not in trained.stdout
