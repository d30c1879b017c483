"""Each law of form is shown a model that breaks it and names the fault."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import torch
from torch import nn

from deepcanon.core import Batch, Terms
from deepcanon.core.model import Model
from deepcanon.core.toy import Toy
from deepcanon.laws.contract import check_contract
from deepcanon.laws.documentation import (
    constructor_is_the_configuration,
    docstring_is_complete,
    equations_are_numbered_and_cited,
    first_line_says_what_it_is,
    module_docstring_is_the_proper_name,
    other_names_are_well_formed,
    spec_round_trip,
)
from deepcanon.laws.outcome import Law, Outcome


def verdict(law: Law, cls: type[Model[Any]]) -> Outcome:
    found = law(*cls.example())
    assert found is not None
    return found


def test_the_toy_is_well_formed() -> None:
    for law in (
        docstring_is_complete,
        first_line_says_what_it_is,
        equations_are_numbered_and_cited,
        constructor_is_the_configuration,
        spec_round_trip,
    ):
        assert verdict(law, Toy).holds


class NoEquation(Toy):
    """A Gaussian with a learned mean.

    References:
        | Gauss, 1809

    Arguments:
        features: The dimension.
    """


class NoReference(Toy):
    r"""A Gaussian with a learned mean.

    .. math:: x

    Arguments:
        features: The dimension.
    """


class NoArgument(Toy):
    r"""A Gaussian with a learned mean.

    .. math:: features: x

    References:
        | Theoria motus (Gauss, 1809)

    Arguments:
        other: Not an argument.
    """


class NoSentence(Toy):
    r"""A Gaussian

    .. math:: x

    References:
        | https://example.org

    Arguments:
        features: The dimension.
    """


def test_docstrings_that_lack_a_part_are_named() -> None:
    missing = {
        NoEquation: "no equation",
        NoReference: "no References",
        NoArgument: "the argument features is not described",
        NoSentence: "the first line is not a sentence",
    }
    for cls, words in missing.items():
        found = verdict(docstring_is_complete, cls)
        assert found.measured == 1, cls
        assert words in found.detail


Plant = Callable[..., type[Model[Any]]]

NAME = "Planted Gaussian (PG)."
DOCSTRING = r"""A Gaussian with a learned mean.

Also known as: bell curve, normal distribution.

.. math:: a = b \qquad (1)

.. math:: c = d, \qquad (2) \\
          e = f \qquad (3)

References:
    | Theoria motus (Gauss, 1809)

Arguments:
    features: The dimension.
"""
CODE = """
a = 1  # eq. (1)
c, e = 2, 3  # both at once, eqs. (2) and (3)
"""


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """A model of the catalogue, written to a file and imported from there."""

    def planted(
        docstring: str = DOCSTRING, code: str = CODE, name: str | None = NAME, package: str = "deepcanon.models"
    ) -> type[Model[Any]]:
        head = "" if name is None else f'"""{name}"""\n'
        body = indent(f'r"""{docstring}"""\n{code}', "    ")
        module = f"{package}.planted"
        path = tmp_path / f"planted_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(f"{head}from deepcanon.core.toy import Toy\n\n\nclass Planted(Toy):\n{body}", encoding="utf-8")
        spec = importlib.util.spec_from_file_location(module, path)
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module, loaded)
        spec.loader.exec_module(loaded)
        cls: type[Model[Any]] = loaded.Planted
        return cls

    return planted


def test_a_planted_model_without_a_fault_keeps_the_contract(plant: Plant) -> None:
    found = check_contract(*plant().example())
    assert [outcome.detail for outcome in found if not outcome.holds] == []
    assert {
        "module docstring is the proper name",
        "first line says what it is",
        "other names are well formed",
        "equations are numbered and cited",
    } <= {outcome.law for outcome in found}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (None, "has 0 lines"),
        ("Planted Gaussian\n\nIt has a mean.", "has 3 lines"),
        ("Planted Gaussian", "ends with a period"),
        ("Planted Gaussian. It has a mean.", "not one name"),
        ("Planted Gaussian: it has a mean.", "not one name"),
        (f"Planted {'very ' * 12}Gaussian.", "77 characters"),
        ("The planted Gaussian.", "does not begin with 'The'"),
        ("How to plant a Gaussian.", "does not begin with 'How'"),
    ],
)
def test_a_module_docstring_that_is_not_a_proper_name_is_caught(plant: Plant, name: str | None, words: str) -> None:
    found = check_contract(*plant(name=name).example())
    (broken,) = [outcome for outcome in found if not outcome.holds]
    assert broken.law == "module docstring is the proper name"
    assert words in broken.detail


def test_the_module_of_a_users_own_model_is_documented_as_they_like(plant: Plant) -> None:
    cls = plant(name="What I tried today.\n\nIt did not work.", package="mine")
    assert module_docstring_is_the_proper_name(*cls.example()) is None
    for law in (first_line_says_what_it_is, other_names_are_well_formed, equations_are_numbered_and_cited):
        assert verdict(law, cls).holds


FIRST = "A Gaussian with a learned mean."


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("What has a learned mean.", "begins with 'What'"),
        ("How a mean is learned.", "begins with 'How'"),
        ("Whether a mean is learned.", "begins with 'Whether'"),
        ("Why a mean is learned.", "begins with 'Why'"),
        ("A Gaussian with a mean\nthat is learned.", "has 2 lines"),
        (f"A Gaussian with a {'very ' * 20}learned mean.", "131 characters"),
        (r"A Gaussian with the mean :math:`\mu`.", "has LaTeX"),
    ],
)
def test_a_first_line_that_does_not_say_what_it_is_is_caught(plant: Plant, first: str, words: str) -> None:
    for package in ("deepcanon.methods", "mine"):
        found = verdict(first_line_says_what_it_is, plant(DOCSTRING.replace(FIRST, first), package=package))
        assert found.measured == 1
        assert words in found.detail


def test_a_first_line_may_begin_with_a_longer_word(plant: Plant) -> None:
    assert verdict(first_line_says_what_it_is, plant(DOCSTRING.replace(FIRST, "Whatever has a mean."))).holds


OTHER = "Also known as: bell curve, normal distribution."


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("Also known as: bell curve, normal distribution", "not of the form"),
        ("Also known as bell curve.", "not of the form"),
        ("also known as: bell curve.", "not of the form"),
        ("It is also known as the bell curve.", "not of the form"),
        ("It is symmetric.\n\nAlso known as: bell curve.", "not of the form"),
        ("Also known as: bell curve, , normal distribution.", "'' is not a name"),
        ("Also known as: bell curve, and normal distribution.", "'and normal distribution' is not a name"),
        ("Also known as: bell curve, Bell curve.", "'Bell curve' is named before"),
        ("Also known as: planted Gaussian.", "'planted Gaussian' is named before"),
        ("Also known as: bell curve, PG.", "'PG' is named before"),
    ],
)
def test_other_names_that_are_malformed_or_given_twice_are_caught(plant: Plant, other: str, words: str) -> None:
    found = verdict(other_names_are_well_formed, plant(DOCSTRING.replace(OTHER, other)))
    assert found.measured == 1
    assert words in found.detail


def test_other_names_may_go_over_lines_and_may_be_missing(plant: Plant) -> None:
    over_lines = DOCSTRING.replace("curve, normal", "curve,\nnormal")
    assert "bell curve, normal distribution" in verdict(other_names_are_well_formed, plant(over_lines)).detail
    assert other_names_are_well_formed(*plant(DOCSTRING.replace(f"{OTHER}\n\n", "")).example()) is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            r"a = b \qquad (1)",
            "a = b",
            ["does not end", "numbered [2, 3], not from 1 to 2", "eq. (1) is cited"],
        ),
        (r"e = f \qquad (3)", "e = f", ["does not end with a number", "eq. (3) is cited and not in any docstring"]),
        (r"\qquad (3)", r"\qquad (4)", ["numbered [1, 2, 4]", "'# eq. (4)'", "eq. (3) is cited"]),
        (r"\qquad (3)", r"\qquad (2)", ["numbered [1, 2, 2]", "eq. (3) is cited"]),
        ("a = 1  # eq. (1)", "a = 1", ["no line of code ends with '# eq. (1)'"]),
        ("a = 1  # eq. (1)", "# eq. (1)\na = 1", ["no line of code ends with '# eq. (1)'"]),
        ("a = 1  # eq. (1)", '"""One."""  # eq. (1)', ["no line of code ends with '# eq. (1)'"]),
        ("a = 1  # eq. (1)", 'a = "# eq. (1)"', ["no line of code ends with '# eq. (1)'"]),
        ("a = 1  # eq. (1)", "a = 1  # equation (1)", ["no line of code ends with '# eq. (1)'"]),
        ("a = 1", "b = 0  # eq. (5)\na = 1", ["eq. (5) is cited and not in any docstring of the file"]),
        ("a = 1", "# eq. (5)\na = 1", ["eq. (5) is cited and not in any docstring of the file"]),
        ("The dimension.", "The D of eq. (5).", ["eq. (5) is cited and not in any docstring of the file"]),
    ],
)
def test_equations_without_numbers_or_lines_that_compute_them_are_caught(
    plant: Plant, old: str, new: str, words: list[str]
) -> None:
    assert old in DOCSTRING + CODE
    found = verdict(equations_are_numbered_and_cited, plant(DOCSTRING.replace(old, new), CODE.replace(old, new)))
    assert found.measured == len(words)
    for part in words:
        assert part in found.detail


def test_an_equation_of_another_docstring_of_the_file_may_be_cited(plant: Plant) -> None:
    method = 'def other(self):\n    r"""Another.\n\n    .. math:: g = h \\qquad (4)\n    """\n    return 4  # eq. (4)\n'
    assert verdict(equations_are_numbered_and_cited, plant(code=CODE + method)).holds


def test_a_class_that_no_file_defines_cites_nothing(plant: Plant) -> None:
    for module in ("__console__", plant().__module__):
        typed: Any = type("Typed", (Toy,), {"__doc__": DOCSTRING, "__module__": module})
        assert equations_are_numbered_and_cited(*typed.example()) is None
        assert verdict(first_line_says_what_it_is, typed).holds


class HidesArguments(Toy):
    def __init__(self, features: int, **options: Any) -> None:
        super().__init__(features)


class Unannotated(Toy):
    def __init__(self, features) -> None:  # type: ignore[no-untyped-def]
        super().__init__(features)


class SpeaksForTheTrainer(Toy):
    def __init__(self, features: int, lr: float = 0.1) -> None:
        super().__init__(features)


def test_constructors_that_hide_their_configuration_are_named() -> None:
    assert "**options" in verdict(constructor_is_the_configuration, HidesArguments).detail
    assert "features is not annotated" in verdict(constructor_is_the_configuration, Unannotated).detail
    assert "lr is a word of the trainer" in verdict(constructor_is_the_configuration, SpeaksForTheTrainer).detail
    for cls in (HidesArguments, Unannotated, SpeaksForTheTrainer):
        assert not verdict(constructor_is_the_configuration, cls).holds


class ForgetsAnArgument(Toy):
    def __init__(self, features: int) -> None:
        super().__init__(features)
        del self._hparams["features"]


class AltersAnArgument(Toy):
    def __init__(self, features: int) -> None:
        super().__init__(features)
        self._hparams["features"] = features + 1


class Grows(Toy):
    """Its example is no longer what its constructor builds."""

    @classmethod
    def example(cls) -> Any:
        model, batch = super().example()
        model.mean = nn.Parameter(torch.zeros(3))
        return model, batch


class NeedsCode(Toy):
    def __init__(self, features: int, kind: Any = nn.ReLU) -> None:
        super().__init__(features)


class AppendsToItsList(Model[Batch]):
    def __init__(self, hidden: Any) -> None:
        super().__init__()
        hidden.append(1)
        self.net = nn.Linear(sum(hidden), 1)

    @classmethod
    def example(cls) -> Any:
        return cls([2]), Batch(torch.ones(2, 3))

    def loss(self, batch: Batch) -> Terms:
        return {"loss": self.net(batch.x).mean()}


def test_a_model_that_cannot_be_rebuilt_is_caught() -> None:
    for cls in (ForgetsAnArgument, AltersAnArgument, Grows, NeedsCode, AppendsToItsList):
        assert not verdict(spec_round_trip, cls).holds, cls
    assert "the tensor mean is not the same again" in verdict(spec_round_trip, Grows).detail
    assert "JSON-able" in verdict(spec_round_trip, NeedsCode).detail


class Pair(Model[Batch]):
    """A model made of two models."""

    def __init__(self, left: Toy, others: tuple[Toy, ...]) -> None:
        super().__init__()
        self.parts = nn.ModuleList([left, *others])

    @classmethod
    def example(cls) -> Any:
        return cls(Toy(2), (Toy(3), Toy(4))), Batch(torch.ones(2, 2))

    def loss(self, batch: Batch) -> Terms:
        return {"nll": batch.x.mean()}


def test_models_inside_models_are_rebuilt_too() -> None:
    found = verdict(spec_round_trip, Pair)
    assert found.holds
    assert "3 tensors" in found.detail
