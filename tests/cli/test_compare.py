"""The command compare: numbers equal those of evaluate, commands repeat, and a signal loses nothing."""

from __future__ import annotations

import itertools
import json
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepcanon.blueprints import blueprint
from deepcanon.comparison.baselines import scikit_learn
from deepcanon.comparison.repeating import compare_command, run_commands
from deepcanon.core import Batch, Terms, UsageError
from deepcanon.core.files import unseal
from deepcanon.data.tables.table import log_det_of_scaling
from deepcanon.models.variational.vae import VAE
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file of two kinds of flowers."""
    path = tmp_path_factory.mktemp("data") / "flowers.csv"
    random = np.random.default_rng(0)
    lines = [f"{random.normal(kind):.3f},{random.normal(2 * kind):.3f},{'ab'[kind]}" for kind in (0, 1) * 30]
    path.write_text("width,length,kind\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def compared(iris: Path, tmp_path_factory: pytest.TempPathFactory, call: Call) -> tuple[Path, dict[str, Any]]:
    """A comparison of classifiers and densities on one file, with its answer."""
    out = tmp_path_factory.mktemp("runs") / "compared"
    answer = call(
        "compare", "softmax_regression", "vae:hidden=8/4,latent=1", "gaussian", "--data", iris, "--target", "kind",
        "--out", out, "--threads", "1", "--baselines", "none", "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.stderr
    return out, answer.json


@pytest.mark.slow
def test_the_answer_names_the_report_and_holds_the_file(compared: tuple[Path, dict[str, Any]]) -> None:
    out, answer = compared
    assert answer["report"] == str(out / "report.html")
    path = out / "compare.json"
    content = unseal(path.read_bytes(), path)
    assert {**content, "out": str(out), "report": str(out / "report.html")} == answer
    assert (out / "report.html").stat().st_size > 10_000


def test_numbers_equal_those_of_evaluate(compared: tuple[Path, dict[str, Any]], call: Call) -> None:
    out, answer = compared
    for entry in answer["runs"]:
        test = call("evaluate", out / entry["run"], "--threads", "1", "--json").json["test"]
        measured = entry["measured"]
        assert measured["test"] == test
        if measured["likelihood"] is not None:
            data = RunFolder.open(out / entry["run"]).info["data"]
            units = log_det_of_scaling(data["preprocessing"], torch.zeros(1, *data["shape"])).item()
            assert measured["likelihood"]["nats"] == pytest.approx(-test["nll"] + units)
        else:
            assert measured["predictions"] is not None
            right = sum(measured["predictions"]["confusion"][i][i] for i in (0, 1))
            assert right / 12 == pytest.approx(test["accuracy"])


@pytest.mark.slow
def test_the_commands_of_the_report_repeat_its_runs(
    compared: tuple[Path, dict[str, Any]], call: Call, tmp_path: Path
) -> None:
    out, answer = compared
    candidates = [blueprint(name) for name in answer["request"]["models"]]
    commands = run_commands(answer, candidates)  # type: ignore[arg-type]
    assert len(commands) == 3
    for place, (command, entry) in enumerate(zip(commands, answer["runs"], strict=True)):
        _, *words = shlex.split(command)
        again = call(*words, "--out", tmp_path / str(place), "--json")
        assert again.code == 0, again.stderr
        assert again.json["test"] == entry["measured"]["test"]
    assert RunFolder.open(tmp_path / "1").info["model"]["arguments"]["hidden"] == [8, 4]
    _, *words = shlex.split(compare_command(answer, str(out)))  # type: ignore[arg-type]
    kept = call(*words)
    assert kept.code == 0
    assert kept.stdout.count(": kept") == 3


def test_people_see_tables_by_question_and_what_did_not_work(iris: Path, tmp_path: Path, call: Call) -> None:
    answer = call("compare", "gaussian", "mlp", "--data", iris, "--out", tmp_path / "out", "--seeds", "2",
                  "--baselines", "none")  # fmt: skip
    assert answer.code == 0, answer.stderr
    assert "[1/2] gaussian on" in answer.stdout
    assert "Densities and samplers" in answer.stdout
    assert "(exact)" in answer.stdout
    assert "mlp did not work: mlp learns from labeled examples" in answer.stdout
    assert str(tmp_path / "out" / "report.html") in answer.stdout.replace("\n", "")


def test_wrong_usage_is_said_before_anything_is_trained(iris: Path, tmp_path: Path, call: Call) -> None:
    for words, expected in (
        (["gausian"], "did you mean gaussian?"),
        (["vae:latnt=3"], "did you mean latent?"),
        (["vae:latent"], "name:option=value"),
        (["vae:latent=many"], "latent takes a whole number"),
        (["gaussian", "gaussian"], "given twice"),
        (["mlp"], "labeled"),
        (["gaussian", "--baselines", "boosting"], "there is no baseline 'boosting'"),
        (["gaussian", "--baselines", "ridge"], "the baseline ridge is not for the table"),
        (["gaussian", "--cost", "a=2"], "no labels to be mistaken about"),
        (["softmax_regression", "--target", "kind", "--cost", "c=2"], "'c' is not a class"),
        (["softmax_regression", "--target", "kind", "--cost", "b=cheap"], "a class and a number"),
        (["gaussian", "--budget", "-1"], "must be positive"),
    ):
        answer = call("compare", *words, "--data", iris, "--out", tmp_path / "out")
        assert answer.code == 2
        assert expected in answer.stderr
    assert not (tmp_path / "out").exists()


def test_arguments_are_read_by_the_constructor_of_the_model() -> None:
    found = blueprint("vae:hidden=64/32,likelihood=bernoulli")
    assert found.arguments == {"hidden": (64, 32), "likelihood": "bernoulli"}
    with pytest.raises(UsageError, match="one of gaussian, bernoulli"):
        blueprint("vae:likelihood=cauchy")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_between_trainings_it_says_how_to_go_on(
    number: signal.Signals, iris: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with it ignored
    before = signal.getsignal(number)

    def interrupt(*_: object) -> None:
        assert signal.getsignal(number) is not signal.SIG_DFL, "the signal would end these tests"
        signal.raise_signal(number)

    words = ("compare", "gaussian", "--data", iris, "--out", tmp_path / "out", "--baselines", "none")
    with monkeypatch.context() as patch:
        patch.setattr("deepcanon.comparison.job.measure", interrupt)
        answer = call(*words)
    assert answer.code == 128 + number
    assert "the same command goes on" in answer.stdout
    assert signal.getsignal(number) is before
    assert call(*words).code == 0


@pytest.mark.slow
def test_a_signal_stops_a_training_and_the_same_command_goes_on(
    iris: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, losses, loss = tmp_path / "out", itertools.count(1), VAE.loss

    def interrupted(model: VAE, batch: Batch) -> Terms:
        if model.training and next(losses) == 20:
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, "the signal would end these tests"
            signal.raise_signal(signal.SIGTERM)
        return loss(model, batch)

    words = ("compare", "softmax_regression", "vae:hidden=8,latent=1", "--data", iris, "--target", "kind",
             "--threads", "1", "--baselines", "none", "--out", out)  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(VAE, "loss", interrupted)
        stopped = call(*words)
    assert stopped.code == 128 + signal.SIGTERM
    assert "the same command goes on" in stopped.stdout
    run = out / "vae-hidden-8-latent-1-plain" / "seed-0"
    assert RunFolder.open(run).info["status"] == "stopped"
    assert checkpoint.latest(run / "checkpoints").state["step"] == 20
    again = call(*words)
    assert again.code == 0, again.stderr
    assert f"softmax_regression on {iris}, seed 0: kept" in again.stdout.replace("\n", "")
    assert RunFolder.open(run).info["status"] == "finished"
    assert json.loads((out / "compare.json").read_text())["status"] == "finished"


@pytest.mark.slow
def test_without_names_models_and_baselines_stand_side_by_side_and_are_kept(
    iris: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way of a table: chosen, trained, costs, a learning curve, intervals, a report; then all is kept."""
    monkeypatch.setattr(scikit_learn, "TREES", 20)
    words = ("compare", "--data", iris, "--target", "kind", "--cost", "b=5", "--learning-curve", "--threads", "1",
             "--out", tmp_path / "out")  # fmt: skip
    answer = call(*words)
    assert answer.code == 0, answer.stderr
    said = " ".join(answer.stdout.split())
    assert "No models were named; these suit rows of a table with 2 classes, 42 training examples" in said
    boosting = "HistGradientBoosting (scikit-learn)"
    for label in (boosting, "RandomForest (scikit-learn)", "KNeighbors (scikit-learn)",
                  "LogisticRegression (scikit-learn)"):  # fmt: skip
        assert f"{label} on {iris}, seed 0 ..." in said
        assert f"{label} on 21 examples of {iris}, seed 0 ..." in said
    assert "By the costs of mistakes," in said
    assert "with 42 training examples instead of 21 changes by" in said
    assert "95% interval" in said
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Why these models" in page
    assert "<small>baseline</small>" in page
    assert "deepcanon evaluate" in page
    assert f"deepcanon evaluate {tmp_path / 'out' / 'HistGradient'}" not in page
    path = tmp_path / "out" / "compare.json"
    content = unseal(path.read_bytes(), path)
    models = [entry["label"] for entry in content["runs"] if not entry["baseline"]]
    assert models == ["regularized:model=softmax_regression,l2=0.01", "mlp"]
    assert {each["measure"] for each in content["differences"]} >= {"log_loss", "accuracy", "cost"}
    assert len([each for each in content["differences"] if each["measure"] == "log_loss"]) == 15  # of six, every two
    again = call(*words)
    assert again.code == 0
    assert again.stdout.count(": kept") == len(content["runs"]) + len(content["curve"]) == 6 * 3
    _, *repeated = shlex.split(compare_command(content, str(tmp_path / "out")))  # type: ignore[arg-type]
    assert call(*repeated).stdout.count(": kept") == 18


@pytest.mark.slow
def test_a_baseline_that_is_damaged_or_thrown_away_is_fitted_again(iris: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    words = (
        "compare",
        "softmax_regression",
        "--data",
        iris,
        "--target",
        "kind",
        "--baselines",
        "logistic",
        "--out",
        out,
    )
    first = call(*words, "--json").json
    assert [entry["label"] for entry in first["runs"]] == ["softmax_regression", "LogisticRegression (scikit-learn)"]
    examples = out / first["runs"][1]["run"] / "test-examples.safetensors"
    examples.unlink()
    again = call(*words)
    assert again.stdout.count(": kept") == 1
    assert examples.is_file()
    examples.write_bytes(examples.read_bytes()[:-1] + b"?")
    assert "is damaged" in call(*words).stderr
    dearer = call(*words[:-1], tmp_path / "new", "--cost", "b=5")
    assert dearer.code == 0
    assert ": kept" not in dearer.stdout
    assert call(*words[:-1], tmp_path / "new", "--cost", "b=9").stdout.count(": kept") == 0  # measured anew
