"""A method wraps a model by name or a trained one from a run, goes through every command, and gives its model back."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.blueprints import blueprint
from deepcanon.comparison.repeating import run_commands
from deepcanon.core import Model, SemiBatch, Voted
from deepcanon.runs.folder import RunFolder

Call = Callable[..., Any]

METHODS = [
    entry.name
    for entry in catalogue.entries()
    if entry.family == "methods"
    and not issubclass(catalogue.find(entry.name).batch_type(), SemiBatch | Voted)
    and entry.name != "latent_diffusion"  # which wraps an autoencoder
]
FEATURES_ONLY = ("masked_reconstruction", "siamese", "simclr")
"""Methods that learn features and predict nothing."""


@pytest.fixture
def base(call: Call, tmp_path: Path) -> Path:
    """A trained classifier of digits."""
    words = ["--hidden", "16", "--steps", "30", "--batch-size", "64", "--threads", "1"]
    assert call("train", "mlp", "--data", "digits", "--out", tmp_path / "base", *words).code == 0
    return tmp_path / "base"


@pytest.mark.slow
def test_lora_adapts_a_trained_model_and_gives_it_back_merged(call: Call, tmp_path: Path, base: Path) -> None:
    run, plain = tmp_path / "lora", tmp_path / "plain"
    words = ["--model", base, "--rank", "2", "--data", "digits", "--steps", "20", "--threads", "1", "--json"]
    trained = call("train", "lora", *words, "--out", run)
    assert trained.code == 0, trained.stderr
    before, after = dc.load(base).state_dict(), dc.load(run).model.state_dict()  # type: ignore[union-attr]
    assert torch.equal(before["net.0.weight"], after["net.0.parametrizations.weight.original"])
    assert torch.equal(before["net.0.bias"], after["net.0.bias"])

    measured = call("evaluate", run, "--json").json
    assert measured["test"] == trained.json["test"]
    assert call("predict", run, "--out", tmp_path / "said.csv").code == 0
    with (tmp_path / "said.csv").open() as file:
        assert len(list(csv.reader(file))) == 361

    merged = call("unwrap", run, "--out", plain, "--json")
    assert merged.code == 0, merged.stderr
    assert merged.json["model"] == "mlp"
    assert merged.json["test"] == pytest.approx(measured["test"], rel=1e-5)
    model = dc.load(plain)
    assert (model.name(), model.state_dict().keys()) == ("mlp", before.keys())
    x = dc.load_data("digits").split("test").x
    torch.testing.assert_close(model(x), dc.load(run)(x), rtol=1e-6, atol=1e-6)

    assert "already holds run.json" in call("unwrap", run, "--out", plain).stderr
    assert call("unwrap", run, "--out", plain, "--overwrite").code == 0
    assert call("unwrap", base, "--out", plain).stderr.endswith("holds a mlp, which wraps no other model\n")


@pytest.mark.slow
def test_a_method_is_written_as_onnx(call: Call, tmp_path: Path, base: Path) -> None:
    pytest.importorskip("onnxscript", reason="needs deepcanon[onnx]")
    pytest.importorskip("onnxruntime", reason="needs deepcanon[onnx]")
    run = tmp_path / "lora"
    assert call("train", "lora", "--model", base, "--data", "digits", "--steps", "5", "--out", run).code == 0
    answer = call("export", run, "--to", tmp_path / "lora.onnx", "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["difference"] < 1e-5


def test_a_run_that_does_not_suit_is_refused_in_one_sentence(call: Call, tmp_path: Path, base: Path) -> None:
    for words, sentence in (
        (["--model", base, "--data", "moons"], "features is 2 in moons, but 64 in the model of"),
        (["--model", base, "--model.hidden", "8"], "is as it was trained: leave out --model.hidden"),
        (["--model", tmp_path / "nothing"], "is not a run: it has no run.json"),
        (["--model", base, "--layers", "query"], "that LoRA can adapt; it has net.0, net.2"),
        (["--model", "mpl"], "there is no model 'mpl'; did you mean mlp?"),
    ):
        answer = call("train", "lora", *words, "--out", tmp_path / "wrong")
        assert answer.code == 2
        assert sentence in answer.stderr
    wrong = call("train", "fixmatch", "--model", "mlp", "--data", "moons")
    assert "moons has labels only: say moons:labels=8" in wrong.stderr
    wrong = call("train", "fixmatch", "--model", "mlp", "--data", "karate")
    assert wrong.stderr == ("deepcanon: fixmatch learns from labeled and unlabeled examples; karate gives a graph\n")


@pytest.mark.slow
def test_few_labels_are_shown_beside_what_learns_without_the_unlabeled_examples(call: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["--model", "mlp", "--model.hidden", "16", "--steps", "20", "--threads", "1"]
    answer = call("train", "pi_model", *words, "--data", "moons:labels=6", "--out", run, "--json")
    assert answer.code == 0, answer.stderr
    baselines = ["supervised", "supervised, same augmentation", "LabelSpreading (scikit-learn)", "pi_model"]
    assert list(answer.json["baselines"]) == baselines
    assert answer.json["baselines"]["pi_model"] == pytest.approx(answer.json["test"]["accuracy"])
    assert (run / "pictures" / "baselines.png").is_file()
    assert call("evaluate", run, "--json").json["baselines"] == answer.json["baselines"]
    assert call("evaluate", run, "--data", "moons", "--json").json["test"] == answer.json["test"]

    torch.manual_seed(0)
    plain = dc.find("mlp")(features=2, classes=2, hidden=(16,))
    result = dc.fit(plain, dc.load_data("moons:labels=6"), steps=20, quiet=True)
    assert answer.json["baselines"]["supervised"] == pytest.approx(result.test["accuracy"])
    inner = dc.load(run).model
    assert isinstance(inner, Model)
    assert RunFolder.open(run).info["model"]["arguments"]["model"]["arguments"]["hidden"] == [16]


@pytest.mark.slow
def test_methods_are_compared_with_plain_models(call: Call, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b,kind\n" + "".join(f"{i % 7},{i % 5 + 9 * (i % 2)},{'xy'[i % 2]}\n" for i in range(80)))
    method = "fixmatch:model=mlp,model.hidden=4,weight=0.5"
    words = ["--data", f"{rows}:labels=6", "--target", "kind", "--out", tmp_path / "out", "--budget", "0.2", "--json"]
    words += ["--baselines", "none"]
    answer = call("compare", method, "softmax_regression", *words)
    assert answer.code == 0, answer.stderr
    assert [entry["error"] for entry in answer.json["runs"]] == [None, None]
    commands = run_commands(answer.json, [blueprint(method), blueprint("softmax_regression")])
    assert "--model mlp --model.hidden 4 --weight 0.5" in commands[0]


@pytest.mark.slow
def test_without_data_few_labels_of_the_digits_are_learned_from(call: Call, tmp_path: Path) -> None:
    words = ["--model", "softmax_regression", "--steps", "3", "--out", tmp_path / "run", "--json"]
    answer = call("train", "fixmatch", *words)
    assert answer.code == 0, answer.stderr
    assert answer.json["data"] == "digits:labels=40"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_around_a_network_of_digits(call: Call, tmp_path: Path, method: str) -> None:
    words = ["--model", "mlp", "--model.hidden", "8", "--data", "digits", "--steps", "4", "--threads", "1", "--json"]
    trained = call("train", method, *words, "--out", tmp_path)
    assert trained.code == 0, trained.stderr
    assert ("accuracy" in trained.json["test"]) == (method not in FEATURES_ONLY)
    assert call("evaluate", tmp_path, "--json").json["test"] == trained.json["test"]


def test_a_trained_body_learns_another_number_of_classes(call: Call, tmp_path: Path, base: Path) -> None:
    rows = dc.load_data("digits").split("train")
    blurred = rows.x[:200].flatten(1) + 0.01 * torch.randn(200, 64)
    with (tmp_path / "parity.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"pixel{i}" for i in range(64)), "parity"])
        for x, y in zip(blurred.tolist(), rows.y[:200].tolist(), strict=True):
            writer.writerow([*x, ("even", "odd")[y % 2]])
    data = ["--data", tmp_path / "parity.csv", "--target", "parity"]
    answer = call("train", "transfer", "--model", base, *data, "--steps", "5", "--out", tmp_path / "run", "--json")
    assert answer.code == 0, answer.stderr
    model = dc.load(tmp_path / "run")
    assert model(torch.zeros(3, 64)).shape == (3, 2)
    assert torch.equal(model.get_parameter("model.net.0.weight"), dc.load(base).get_parameter("net.0.weight"))
