"""The commands insight and study fill what a question asks for, read its options, and write what was found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from PIL import Image
from torch import nn

import deepcanon
from deepcanon import catalogue
from deepcanon.core import Batch, Model
from deepcanon.core.finding import Finding
from deepcanon.pictures.style import new_figure

Call = Callable[..., Any]


def spread(model: nn.Module, batch: Batch, *, power: float = 2.0, relative: bool = True, seed: int = 0) -> Finding:
    """How far answers spread.

    .. math:: s = 1

    Arguments:
        power: The power.
        relative: Whether to divide.
        seed: Decides all that is random.
    """
    numbers = {"examples": len(batch), "power": power, "relative": relative, "seed": seed, "kind": type(model).__name__}
    return Finding({**numbers, "first": float(batch.x.double().sum())}, new_figure(1, 1), (f"The power is {power}.",))


def path_of(model: nn.Module, batch: Batch, checkpoints: Sequence[dict[str, torch.Tensor]]) -> Finding:
    """The way the weights went."""
    return Finding({"names": [sorted(each) for each in checkpoints]}, new_figure(1, 1), ())


def brightness(batch: Batch, *, by: Literal["mean", "max"] = "mean") -> Finding:
    """How bright images are."""
    return Finding({"value": float(getattr(batch.x, by)()), "shape": list(batch.x.shape)}, new_figure(1, 1), ())


def baselines(mlp: type[Model[Any]], gan: type[Model[Any]], *, sizes: tuple[int, ...] = (1,), seed: int = 0) -> Finding:
    """Which of two is better."""
    return Finding({"models": [mlp.name(), gan.name()], "sizes": list(sizes), "seed": seed}, new_figure(1, 1), ("So.",))


QUESTIONS: dict[str, dict[str, Callable[..., Finding]]] = {
    "insight": {"spread": spread, "path_of": path_of, "brightness": brightness},
    "study": {"baselines": baselines},
}


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Questions whose answers are known, in place of those of the tree; and a folder of its own to work in."""

    def questions(kind: catalogue.Question) -> tuple[catalogue.Entry, ...]:
        texts = {name: function.__doc__ or "" for name, function in QUESTIONS[kind].items()}
        return tuple(catalogue.Entry(name, kind, __name__, text.partition("\n")[0]) for name, text in texts.items())

    monkeypatch.setattr("deepcanon.catalogue.questions", questions)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "gray.png"
    Image.new("L", (5, 4), 51).save(path)
    return path


def test_without_a_name_all_are_listed(call: Call) -> None:
    assert "baselines" in call("study").stdout
    assert call("insight", "--json").json["insights"][0] == {"name": "spread", "summary": "How far answers spread."}


def test_a_study_gets_its_models_by_name_and_its_options(call: Call) -> None:
    answer = call("study", "baselines", "--sizes", "2,3", "--seed", "7", "--json")
    assert answer.code == 0, answer.stderr
    numbers = {"models": ["mlp", "gan"], "sizes": [2, 3], "seed": 7}
    assert answer.json == {
        "study": "baselines", "says": ["So."], "numbers": numbers,
        "picture": "studies/baselines/baselines.png", "table": "studies/baselines/baselines.json",
    }  # fmt: skip
    assert json.loads(Path("studies/baselines/baselines.json").read_text()) == numbers
    assert Path("studies/baselines/baselines.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_study_finds_a_free_folder_and_nothing_is_overwritten_unasked(call: Call) -> None:
    assert call("study", "baselines").stdout == (
        "So.\nThe figure is studies/baselines/baselines.png, its numbers are in studies/baselines/baselines.json.\n"
    )
    assert call("study", "baselines", "--json").json["picture"] == "studies/baselines-2/baselines.png"
    Path("mine").mkdir()
    Path("mine/baselines.json").write_text("mine")
    refused = call("study", "baselines", "--out", "mine")
    assert (refused.code, refused.stderr.count("\n")) == (2, 1)
    assert "already there" in refused.stderr
    assert Path("mine/baselines.json").read_text() == "mine"
    assert not Path("mine/baselines.png").exists()
    assert call("study", "baselines", "--out", "mine", "--overwrite").code == 0
    assert "models" in Path("mine/baselines.json").read_text()


def test_an_insight_looks_at_the_held_out_data_of_a_run(call: Call, runs: Path) -> None:
    answer = call("insight", "spread", runs / "mlp", "--power", "3", "--no-relative", "--examples", "9", "--json")
    assert answer.code == 0, answer.stderr
    held_out = deepcanon.load_data("digits").test
    assert held_out is not None
    assert answer.json["numbers"] == {
        "examples": 9, "power": 3.0, "relative": False, "seed": 0, "kind": "MLP",
        "first": float(held_out.x[:9].double().sum()),
    }  # fmt: skip
    assert answer.json["picture"] == "insights/spread-mlp/spread.png"


def test_an_untrained_model_takes_its_own_arguments_besides(call: Call) -> None:
    words = ["insight", "spread", "softmax_regression", "--data", "moons", "--seed", "5", "--power", "1", "--json"]
    answer = call(*words)
    assert answer.code == 0, answer.stderr
    assert answer.json["numbers"]["kind"] == "SoftmaxRegression"
    assert (answer.json["numbers"]["power"], answer.json["numbers"]["seed"]) == (1.0, 5)
    assert call("insight", "spread", "mlp", "--data", "moons", "--hidden", "4", "--json").code == 0


def test_the_checkpoints_of_a_run_come_oldest_first(call: Call, runs: Path) -> None:
    names = call("insight", "path_of", runs / "mlp", "--json").json["numbers"]["names"]
    assert len(names) == 2
    assert all(each == names[0] and "net.0.weight" in each for each in names)


def test_an_insight_without_a_model_looks_at_an_image_or_at_data(call: Call, image: Path, runs: Path) -> None:
    found = call("insight", "brightness", image, "--json").json["numbers"]
    assert found == {"value": pytest.approx(51 / 255), "shape": [1, 1, 4, 5]}
    assert call("insight", "brightness", "--data", "digits", "--by", "max", "--json").json["numbers"]["value"] == 1.0
    assert call("insight", "brightness", "--by", "max", "--data", "digits", "--json").json["numbers"]["value"] == 1.0
    assert call("insight", "brightness", runs / "vae", "--examples", "2", "--json").json["numbers"]["shape"][0] == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["study", "baselinnes"], "there is no study 'baselinnes'; did you mean baselines?"),
        (["study", "zzz"], "there is no study 'zzz'; 'deepcanon study' shows all"),
        (["study", "--seed", "3"], "the name comes first: deepcanon study NAME --seed"),
        (["study", "baselines", "--sizes", "a"], "--sizes takes whole numbers with commas between them, got 'a'"),
        (["study", "baselines", "--size", "1"], "baselines takes no --size; did you mean --sizes?"),
        (["insight", "sprad"], "there is no insight 'sprad'; did you mean spread?"),
        (["insight", "spread"], "spread needs a model: deepcanon insight spread RUN"),
        (["insight", "spread", "nowhere/run"], "there is no model 'nowhere/run'"),
        (["insight", "spread", "."], ". is not a run: it has no run.json"),
        (["insight", "spread", "gray.png"], "spread needs a model: give the folder of a run"),
        (["insight", "spread", "--power", "2"], "spread needs a model: deepcanon insight spread RUN"),
        (["insight", "brightness"], "brightness needs examples: name an image"),
        (["insight", "brightness", "mlp"], "brightness needs no model; name an image"),
        (["insight", "brightness", "--data", "digits", "--by", "min"], "--by takes one of mean, max, got 'min'"),
        (["insight", "brightness", "gray.png", "--bye", "max"], "brightness takes no --bye; did you mean --by?"),
    ],
)
def test_wrong_use_is_one_sentence(call: Call, image: Path, words: list[str], sentence: str) -> None:
    answer = call(*words)
    assert answer.code == 2
    assert sentence in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["gray.png"]


def test_wrong_options_of_a_run_and_of_an_untrained_model(call: Call, runs: Path) -> None:
    refused = call("insight", "spread", runs / "mlp", "--hidden", "3")
    assert (refused.code, "spread takes no --hidden" in refused.stderr) == (2, True)
    refused = call("insight", "spread", "softmax_regression", "--data", "moons", "--powr", "3")
    assert (refused.code, "did you mean --power?" in refused.stderr) == (2, True)
    refused = call("insight", "path_of", "softmax_regression", "--data", "moons")
    assert (refused.code, "path_of follows a training" in refused.stderr) == (2, True)


def test_what_is_shown_of_an_insight(call: Call) -> None:
    facts = call("show", "spread", "--json").json
    assert facts["summary"] == "How far answers spread."
    assert facts["equations"] == ["s = 1"]
    assert [(each["option"], each["default"]) for each in facts["arguments"]] == [
        ("--power", "2.0"), ("--relative", "true"), ("--seed", "0"),
    ]  # fmt: skip
    page = call("show", "spread").stdout
    assert "deepcanon insight spread RUN" in page
    assert "The power." in page
