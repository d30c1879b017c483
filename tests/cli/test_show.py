"""A model is shown as its class and docstring say it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from deepcanon import catalogue
from deepcanon.core import Model, arguments_of, methods_of

Call = Callable[..., Any]


@pytest.mark.parametrize("name", [entry.name for entry in catalogue.entries()])
def test_all_there_is_to_know_is_shown(name: str, call: Call) -> None:
    cls = catalogue.find(name)
    facts = call("show", name, "--json").json
    text = " ".join((inspect.getdoc(cls) or "").split())
    assert facts["equations"]
    assert all(" ".join(equation.split()) in text for equation in facts["equations"])
    assert all("(" in reference for reference in facts["references"])
    assert [each["option"] for each in facts["arguments"]] == [
        f"--{argument}".replace("_", "-") for argument in arguments_of(cls)
    ]
    assert all(each["meaning"] for each in facts["arguments"])
    assert tuple(facts["methods"]) == methods_of(cls)
    own = not facts["wraps"] or cls.recipe is not Model.recipe
    assert facts["recipe"] == (asdict(cls.recipe) if own else {})
    page = call("show", name).stdout
    for part in (facts["summary"], *facts["references"], *(each["option"] for each in facts["arguments"])):
        assert part in page


def test_defaults_are_written_as_on_the_command_line(call: Call) -> None:
    arguments = {each["option"]: each for each in call("show", "mlp", "--json").json["arguments"]}
    widths = arguments_of(catalogue.find("mlp"))["hidden"].default
    assert arguments["--hidden"]["default"] == ",".join(str(width) for width in widths)
    assert arguments["--features"]["default"] == arguments["--classes"]["default"] == "from the data"
    assert arguments["--activation"]["takes"].startswith("one of relu, ")


def test_a_method_is_shown_as_one_that_wraps_a_model(call: Call) -> None:
    page = " ".join(call("show", "lora").stdout.split())
    for line in (
        "can what the model it wraps can",
        "recipe that of the model it wraps",
        "train it deepcanon train lora",
        "by default --model mlp --data digits",
    ):
        assert line in page


def test_a_misspelled_model(call: Call) -> None:
    answer = call("show", "vea")
    assert answer.code == 2
    assert answer.stderr == "deepcanon: there is no model 'vea'; did you mean vae?\n"
