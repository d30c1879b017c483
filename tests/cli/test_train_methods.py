"""Every method trains and draws without an argument: it has a default model, and there are data that suit both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.blueprints import from_options, untrained
from deepcanon.core import SemiBatch, arguments_of

Call = Callable[..., Any]

METHODS = [entry.name for entry in catalogue.entries() if entry.family == "methods"]

FEW_LABELS = {name for name in METHODS if issubclass(catalogue.find(name).batch_type(), SemiBatch)}


def test_there_are_methods() -> None:
    assert {"bagging", "lora", "transfer"} <= set(METHODS)
    assert {"fixmatch", "pi_model"} <= FEW_LABELS
    assert catalogue.find("lora").wraps_trained  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "data"), [("augmentation", "digits"), ("fixmatch", "digits:labels=40")])
def test_a_method_shows_what_it_wraps_by_default(name: str, data: str, call: Call) -> None:
    facts = call("show", name, "--json").json
    wrapped = {each["option"]: each["default"] for each in facts["arguments"]}["--model"]
    assert wrapped == catalogue.find(name).default_model  # type: ignore[attr-defined]
    assert facts["default"] == {"model": wrapped, "data": data}


def test_the_default_is_shown_to_people_too(call: Call) -> None:
    assert "--model cnn --data digits\n" in call("show", "augmentation").stdout


@pytest.mark.parametrize("name", METHODS)
def test_a_method_trains_without_arguments(name: str, call: Call, tmp_path: Path) -> None:
    answer = call("train", name, "--steps", "2", "--threads", "1", "--out", tmp_path / "run")
    assert answer.code == 0, answer.stderr
    run = dc.Run(tmp_path / "run").info
    assert run["model"]["arguments"]["model"]["model"] == catalogue.find(name).default_model  # type: ignore[attr-defined]
    others = {"weak_supervision": "digits:votes=6", "engineered_features": "rings"}
    assert run["data"]["name"] == ("digits:labels=40" if name in FEW_LABELS else others.get(name, "digits"))
    meant = catalogue.find(name).wraps_trained  # type: ignore[attr-defined]
    assert ("is meant for a trained model, and this mlp is not" in answer.stdout) == meant


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(("name", "own"), [("augmentation", "gallery.png"), ("lora", "updates.png")])
def test_so_it_draws(name: str, own: str, call: Call, tmp_path: Path) -> None:
    assert call("train", name, "--steps", "2", "--threads", "1", "--out", tmp_path / "run").code == 0
    assert {"curves.png", own} <= {picture.name for picture in (tmp_path / "run" / "pictures").iterdir()}


def test_arguments_of_the_default_model_are_options_too() -> None:
    asked = from_options(catalogue.find("bagging"), {"model.hidden": ["8,4"], "members": ["2"]})
    assert asked.inner[0].arguments == {"hidden": (8, 4)}
    assert asked.arguments["members"] == 2


def test_in_python_a_method_has_its_default_model_too() -> None:
    asked = dc.blueprint("bagging", {"members": 3})
    assert [part.cls.name() for part in asked.everything()] == ["bagging", "mlp"]
    assert dc.blueprint("bagging").label == "bagging"
    assert "model" in arguments_of(asked.cls)


def test_nothing_is_said_of_a_trained_model() -> None:
    mlp = catalogue.find("mlp")(features=2, classes=2)
    assert untrained(dc.blueprint("lora", {"model": mlp})) == []
    assert len(untrained(dc.blueprint("lora"))) == 1
    assert untrained(dc.blueprint("bagging")) == []
