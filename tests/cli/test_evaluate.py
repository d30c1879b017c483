"""What ``train``, ``evaluate`` and ``compare`` say of models on an imbalanced table, and of a regression."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import recall_score, roc_auc_score

import deepcanon as dc

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def trained(call: Call, frauds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that was trained for a moment, too short to find a fraud."""
    out = tmp_path_factory.mktemp("trained") / "run"
    options = ("--hidden", "8", "--epochs", "2", "--threads", "1")
    assert call("train", "mlp", "--data", frauds, "--target", "kind", *options, "--out", out).code == 0
    return out


def test_evaluate_shows_the_baseline_and_every_class_and_says_what_is_missed(call: Call, trained: Path) -> None:
    shown = call("evaluate", trained).stdout
    answer = call("evaluate", trained, "--json").json
    assert "the class prior, test" in shown
    assert "balanced_accuracy" in shown
    fraud = answer["by_class"]["test"][0]
    assert (fraud["examples"], fraud["found"]) == (9, 0)
    assert "It finds none of the 9 test examples of the class 'fraud'." in shown
    assert answer["says"][0] in shown
    assert answer["test"]["balanced_accuracy"] == 0.5
    assert answer["baseline"]["name"] == "the class prior"
    assert answer == {
        **answer,
        **{key: value for key, value in dc.Run(trained).info["results"].items() if key in answer},
    }


def test_scores_are_those_of_the_predictions(call: Call, trained: Path, frauds: Path, tmp_path: Path) -> None:
    """Of a file with another name, which is all test data."""
    copy = tmp_path / "copy.csv"
    copy.write_text(frauds.read_text())
    answer = call("evaluate", trained, "--data", copy, "--json").json
    columns = dc.Run(trained).predict(copy)
    true = np.array([line.rpartition(",")[2] for line in frauds.read_text().splitlines()[1:]]) == "fraud"
    assert answer["test"]["roc_auc"] == pytest.approx(roc_auc_score(true, columns["probability_fraud"]), abs=1e-6)
    found = np.array(columns["prediction"]) == "fraud"
    assert answer["by_class"]["test"][0]["recall"] == pytest.approx(recall_score(true, found))


def test_without_the_training_data_the_missing_baseline_is_said(call: Call, frauds: Path, tmp_path: Path) -> None:
    table, run = tmp_path / "table.csv", tmp_path / "run"
    table.write_text(frauds.read_text())
    words = ("--target", "kind", "--hidden", "8", "--epochs", "4", "--threads", "1")
    assert call("train", "mlp", "--data", table, *words, "--out", run).code == 0
    table.unlink()
    shown = call("evaluate", run, "--data", frauds).stdout
    assert "there is no baseline to compare it with" in shown
    assert "examples of the class 'fraud'" in shown


@pytest.mark.slow
def test_class_weights_find_what_the_plain_loss_does_not(call: Call, frauds: Path, tmp_path: Path) -> None:
    words = ("--data", frauds, "--target", "kind", "--hidden", "8", "--epochs", "20", "--threads", "1", "--json")
    plain = call("train", "mlp", *words, "--out", tmp_path / "plain").json
    weighted = call("train", "mlp", *words, "--class-weight", "balanced", "--out", tmp_path / "weighted").json
    assert plain["by_class"]["test"][0]["recall"] < 0.3 < 0.5 < weighted["by_class"]["test"][0]["recall"]
    assert "balanced_accuracy" in weighted["says"][0]
    again = call("evaluate", tmp_path / "weighted", "--json").json
    assert again["test"] == pytest.approx(weighted["test"])
    refused = call("train", "mlp", *words[:-1], "--class-weight", "1/2/3", "--out", tmp_path / "no")
    assert refused.code == 2
    assert "a positive number for each of the 2 classes" in refused.stderr


@pytest.mark.slow
def test_compare_marks_no_model_that_finds_no_fraud(call: Call, frauds: Path, tmp_path: Path) -> None:
    words = ("--data", frauds, "--target", "kind", "--out", tmp_path / "c", "--threads", "1")
    shown = call(
        "compare", "mlp:hidden=4", "logistic_regression", *words, "--budget", "1", "--baselines", "none"
    ).stdout
    page = (tmp_path / "c" / "report.html").read_text()
    assert "the class prior" in shown
    blind = "logistic_regression finds none of the 9 test examples of the class &#x27;fraud&#x27;."
    assert blind in page
    assert "finds none of the 9 test examples of the class 'fraud'" in shown
    row = page[page.index("<th>logistic_") :].partition("</tr>")[0]
    assert 'class="best"' not in row


def test_a_regression_is_told_in_the_units_of_its_target(call: Call, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2))
    y = 300 * x[:, 0] + 1000 + 50 * random.normal(size=200)
    table = tmp_path / "prices.csv"
    rows = "".join(f"{a:.4f},{b:.4f},{c:.4f}\n" for (a, b), c in zip(x, y, strict=True))
    table.write_text(f"a,b,price\n{rows}")
    words = ("--data", table, "--target", "price", "--threads", "1")
    shown = call("train", "linear_regression", *words, "--out", tmp_path / "run").stdout
    answer = call("evaluate", tmp_path / "run", "--json").json
    std = dc.Run(tmp_path / "run").info["data"]["preprocessing"]["target"]["std"]
    rmse = answer["test"]["rmse"] * std
    assert 35 < rmse < 65
    assert f"test rmse {rmse:.4g} against" in shown
    assert "in the units of 'price'" in shown
    compared = call(
        "compare", "linear_regression", "mlp:hidden=2", *words, "--out", tmp_path / "c", "--baselines", "none"
    ).stdout
    assert "Regression, on" in compared
    assert f"{rmse:.4g}" in compared
    assert "linear_regression has the lowest RMSE" in compared


@pytest.mark.slow
def test_a_likelihood_of_zero_is_not_an_empty_cell(call: Call, tmp_path: Path) -> None:
    words = ("train", "markov_chain", "--smoothing", "0", "--order", "6", "--no-pictures", "--out", str(tmp_path / "r"))
    result = call(*words)
    assert result.code == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["nll"])
    assert row.count("not finite") == 2, row  # of what never occurred in the training split


@pytest.mark.slow
def test_a_diffusion_model_is_measured_by_its_bound_or_by_its_flow(call: Call, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = ("--hidden", "8", "--timesteps", "9", "--steps", "20")
    assert call("train", "ddpm", "--data", "moons", *small, "--out", run).code == 0
    bound, flow = (call("evaluate", run, "--json", *more).json["test"] for more in ((), ("--likelihood", "flow")))
    assert bound["nll_error"] > 0
    assert "nll_error" not in flow  # two features: it is exact
    data = dc.load_data("moons").split("test")
    model: Any = dc.load(run)
    assert flow["nll"] == pytest.approx(-float(model.with_likelihood("flow").log_prob(data.x).mean()), abs=1e-4)
    for place, name, sentence in (
        (run, "exact", "likelihood must be one of bound, flow (got 'exact')"),
        (trained, "flow", "mlp does not choose between likelihoods; leave out 'flow'"),
    ):
        answer = call("evaluate", place, "--likelihood", name)
        assert (answer.code, answer.stderr) == (2, f"deepcanon: {sentence}\n")
