"""What holds of every insight and every study, found by the file tree."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest

from deepcanon import catalogue
from deepcanon.cli.app import app
from deepcanon.core import Model
from deepcanon.core.annotations import describe_type, read_value, show_value
from deepcanon.core.docstrings import read_docstring
from deepcanon.core.finding import Finding
from deepcanon.questions import filled, options_of

ROOT = Path(__file__).parents[1]
KINDS: tuple[catalogue.Question, ...] = ("insight", "study")
EVERY = [pytest.param(kind, entry.name, id=entry.name) for kind in KINDS for entry in catalogue.questions(kind)]


def own_options(command: str) -> set[str]:
    """The options that a command keeps for itself."""
    found = [each for each in app.registered_commands if each.name == command]
    assert found[0].callback is not None
    return set(inspect.signature(found[0].callback).parameters)


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_question_can_be_asked_on_the_command_line(kind: catalogue.Question, name: str) -> None:
    function = catalogue.find_question(kind, name)
    text = read_docstring(function)
    parameters = inspect.signature(function, eval_str=True).parameters
    options = options_of(function)
    assert parameters[next(iter(parameters))].kind is not inspect.Parameter.VAR_POSITIONAL
    assert inspect.signature(function, eval_str=True).return_annotation is Finding
    assert text.summary.endswith((".", "?"))
    assert text.equations, "what it measures is an equation"
    assert text.references
    for option, parameter in options.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert text.arguments.get(option), f"{option} is not in the docstring"
        assert describe_type(parameter.annotation)
        if parameter.default is not None:
            assert read_value(option, [show_value(parameter.default)], parameter.annotation) == parameter.default
    taken = own_options(kind) - ({"seed"} if kind == "insight" else set())
    assert not taken & options.keys(), "the command keeps these options for itself"
    if kind == "insight":
        assert set(filled(function)) <= {"model", "batch", "checkpoints", "table"}
    else:
        assert options["seed"].default == 0
        for needed in filled(function):
            assert _is_class_of_models(parameters[needed].annotation)
            assert catalogue.find(needed)


def test_no_name_has_two_meanings() -> None:
    names = [entry.name for kind in KINDS for entry in catalogue.questions(kind)]
    names += [entry.name for entry in catalogue.entries()]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(("kind", "page"), [("insight", "insight.md"), ("study", "studies.md")])
def test_the_page_lists_them_all(kind: catalogue.Question, page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, flags=re.MULTILINE))
    assert rows == {entry.name: entry.summary for entry in catalogue.questions(kind)}


def test_only_a_function_of_the_files_name_that_returns_a_finding_is_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "studies"
    folder.mkdir()
    for name, returned in (("one", "Finding"), ("two", "float")):
        (folder / f"{name}.py").write_text(f'def {name}(*, seed: int = 0) -> {returned}:\n    """Is it {name}?"""\n')
    (folder / "three.py").write_text("def other() -> Finding: ...\n")
    monkeypatch.setattr(catalogue, "__file__", str(tmp_path / "catalogue.py"))
    catalogue.questions.cache_clear()
    try:
        (found,) = catalogue.questions("study")
    finally:
        catalogue.questions.cache_clear()
    assert found == catalogue.Entry("one", "study", "deepcanon.studies.one", "Is it one?")


@pytest.mark.slow
def test_listing_needs_no_torch() -> None:
    code = (
        "import sys\nsys.argv = ['deepcanon', 'insight']\nfrom deepcanon.cli import main\n"
        "try:\n    main()\nfinally:\n    assert not {'torch', 'numpy', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600, capture_output=True)


def _is_class_of_models(annotation: Any) -> bool:
    (inner,) = get_args(annotation)
    return get_origin(annotation) is type and issubclass(get_origin(inner) or inner, Model)
