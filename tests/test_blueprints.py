"""Options become constructor arguments of the annotated types, or an error that says what was expected."""

from __future__ import annotations

from typing import Any, Literal, Self

import pytest
import torch
from torch import nn

from deepcanon import blueprints, catalogue
from deepcanon.blueprints import from_options
from deepcanon.cli._parse import read_options
from deepcanon.core import Labeled, Model, Terms, UsageError
from deepcanon.core.annotations import describe_type, read_value


class Net(Model[Labeled]):
    """A model with every kind of argument."""

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (64, 64),
        kernel: tuple[int, int] = (3, 3),
        dropout: float | None = None,
        bias: bool = True,
        activation: Literal["relu", "tanh"] = "relu",
        width_factor: float = 1.0,
        rate: float | Literal["auto"] = "auto",
        note: str = "",
    ) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        return cls(features=2), Labeled(torch.ones(4, 2), torch.zeros(4, dtype=torch.long))

    def loss(self, batch: Labeled) -> Terms:
        return {"loss": (self.scale * batch.x).square().mean()}


class Wrapper(Model[Labeled]):
    """A model that wraps another, and cannot do without a strength."""

    def __init__(self, model: Model[Any], strength: float, second: Model[Any] | None = None) -> None:
        super().__init__()
        self.model = model

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        net, batch = Net.example()
        return cls(net, 1.0), batch

    def loss(self, batch: Labeled) -> Terms:
        return self.model.loss(batch)


@pytest.fixture(autouse=True)
def findable(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, type[Model[Any]]] = {"net": Net, "wrapper": Wrapper}
    monkeypatch.setattr(blueprints, "find", lambda name: known.get(name) or catalogue.find(name))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--hidden", "8,4"], {"hidden": (8, 4)}),
        (["--hidden", "8", "4"], {"hidden": (8, 4)}),
        (["--hidden=8, 4"], {"hidden": (8, 4)}),
        (["--hidden", ""], {"hidden": ()}),
        (["--kernel", "5,3"], {"kernel": (5, 3)}),
        (["--dropout", "0.5"], {"dropout": 0.5}),
        (["--dropout", "none"], {"dropout": None}),
        (["--width-factor", "-2.5"], {"width_factor": -2.5}),
        (["--width_factor", "1e-3"], {"width_factor": 1e-3}),
        (["--bias"], {"bias": True}),
        (["--bias", "false"], {"bias": False}),
        (["--no-bias"], {"bias": False}),
        (["--activation", "tanh", "--features", "3"], {"activation": "tanh", "features": 3}),
        (["--rate", "0.5"], {"rate": 0.5}),
        (["--rate", "auto"], {"rate": "auto"}),
        (["--note", "12"], {"note": "12"}),
    ],
)
def test_options_become_values_of_the_annotated_types(words: list[str], expected: dict[str, Any]) -> None:
    given = from_options(Net, read_options(words)).arguments
    assert given == expected
    assert {name: type(value) for name, value in given.items()} == {n: type(value) for n, value in expected.items()}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--hidden", "8,x"], "--hidden takes whole numbers with commas between them, got '8,x'"),
        (["--hidden", "8.5"], "--hidden takes whole numbers with commas between them, got '8.5'"),
        (["--kernel", "5"], "--kernel takes 2 whole numbers with commas between them, got '5'"),
        (["--dropout", "much"], "--dropout takes a number or none, got 'much'"),
        (["--dropout", "nan"], "--dropout takes a number or none, got 'nan'"),
        (["--width-factor", "inf"], "--width-factor takes a number, got 'inf'"),
        (["--dropout", "0.1", "0.2"], "--dropout takes a number or none, got '0.1 0.2'"),
        (["--dropout"], "--dropout needs a value: a number or none"),
        (["--bias", "perhaps"], "--bias takes true or false, got 'perhaps'"),
        (["--activation", "rellu"], "--activation takes one of relu, tanh, got 'rellu'"),
        (["--width-factr", "2"], "Net takes no --width-factr; did you mean --width-factor?"),
        (["--epoch", "2"], "Net takes no --epoch; did you mean --epochs?"),
        (["--zzz", "2"], "Net takes no --zzz; 'deepcanon show Net' lists what it takes"),
        (["--no-hidden"], "Net takes no --no-hidden; did you mean --hidden?"),
        (["--hidden.x", "2"], "--hidden of Net is not a model, so it has no hidden.x"),
        (["--hidden", "2", "--hidden", "3"], "--hidden is given twice"),
        (["digits"], "what is 'digits'? The name of the model comes first, everything else follows an option"),
    ],
)
def test_a_wrong_option_is_answered_by_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        from_options(Net, read_options(words), others=["epochs", "lr"])
    assert str(raised.value) == sentence


def test_a_model_among_the_arguments_takes_a_name_and_arguments_of_its_own() -> None:
    words = ["--model", "wrapper", "--strength", "2", "--model.strength", "3"]
    words += ["--model.model", "net", "--model.model.hidden", "8,4", "--model.model.no-bias"]
    outer = from_options(Wrapper, read_options(words))
    (middle,) = outer.inner
    (inner,) = middle.inner
    assert (outer.arguments["strength"], middle.arguments["strength"]) == (2.0, 3.0)
    assert inner.cls is Net
    assert inner.arguments == {"hidden": (8, 4), "bias": False}
    built = outer.build({"features": 5, "classes": 3}, "data")
    assert built.hparams["model"].hparams["model"].hparams["features"] == 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--strength", "1"], "Wrapper needs --model (the name of a model or the folder of a run)"),
        (["--model", "net"], "Wrapper needs --strength (a number)"),
        (["--model.hidden", "8", "--strength", "1"], "--model.hidden belongs to which model? Add --model NAME"),
        (["--model", "qqqq", "--strength", "1"], "there is no model 'qqqq'; 'deepcanon list' shows all"),
        (
            ["--model", "net", "net", "--strength", "1"],
            "--model takes the name of one model or the folder of a run, got 'net net'",
        ),
        (
            ["--model", "net", "--model.hiden", "8", "--strength", "1"],
            "Net takes no --model.hiden; did you mean --model.hidden?",
        ),
        (
            ["--model", "net", "--model.hidden", "x", "--strength", "1"],
            "--model.hidden takes whole numbers with commas between them, got 'x'",
        ),
    ],
)
def test_a_wrong_part_is_named_with_its_dots(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        from_options(Wrapper, read_options(words))
    assert str(raised.value) == sentence


def test_a_size_that_contradicts_the_data_is_an_error() -> None:
    with pytest.raises(UsageError, match="features is 5 in digits, but 3 was given"):
        from_options(Net, {"features": ["3"]}).build({"features": 5}, "digits")


def test_types_are_told_in_words() -> None:
    assert describe_type(int | None) == "a whole number or none"
    assert describe_type(Literal["a", 2, None]) == "one of a, 2, none"
    assert describe_type(tuple[float, float]) == "2 numbers with commas between them"
    assert describe_type(list[str]) == "words with commas between them"
    assert describe_type(Model[Any] | None) == "the name of a model or the folder of a run or none"
    assert read_value("--x", ["2"], Literal["a", 2]) == 2


def test_a_word_is_text_only_if_it_is_nothing_else() -> None:
    assert read_value("--x", ["2.5"], str | float) == 2.5
    assert read_value("--x", ["much"], str | float) == "much"
