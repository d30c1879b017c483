"""The command ``show``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli._early import check_model
from deepcanon.cli._parse import Json
from deepcanon.cli._print import Output
from deepcanon.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepcanon.catalogue import Question
    from deepcanon.core import Model


def show(
    name: Annotated[str, typer.Argument(help="A name that 'deepcanon list', 'insight' or 'study' shows.")],
    json: Json = False,
) -> None:
    """Show a model: its equation, paper, arguments, methods and recipe; or an insight or a study and its arguments."""
    from deepcanon.catalogue import FOLDERS, find_question, name_of, questions

    wanted = name.lower().replace("-", "_")
    kinds = {each.name: kind for kind in FOLDERS for each in questions(kind)}
    if wanted in kinds:
        _show_question(kinds[wanted], find_question(kinds[wanted], wanted), json)
    else:
        check_model(name)
        from deepcanon.blueprints import is_code, named

        found = named(name)
        cls = found if isinstance(found, type) else type(found)
        _show_model(cls, name if is_code(name) else name_of(cls), json)


def _show_model(cls: type[Model[Any]], called: str, json: bool) -> None:
    facts = facts_of(cls)
    out = Output(json)
    _say_text(out, facts["model"], facts)
    _say_recipe(out, facts, called)
    out.result(facts)


def _say_recipe(out: Output, facts: Mapping[str, Any], called: str) -> None:
    """What a model learns from, what it can, and how it is trained unless options say otherwise."""
    recipe = ", ".join(f"{setting} {value}" for setting, value in facts["recipe"].items() if value is not None)
    methods = [*facts["methods"], *(["what the model it wraps can"] if facts["wraps"] else [])]
    required = [each["option"] for each in facts["arguments"] if each["default"] == "required"]
    default = facts["default"]
    for label, text in (
        ("learns from", facts["learns_from"]),
        ("can", ", ".join(methods) or "only learn"),
        ("recipe", recipe or "that of the model it wraps"),
        ("train it", " ".join([f"deepcanon train {called}", *(f"{o} {o[2:].upper()}" for o in required)])),
        ("by default", f"--model {default['model']} --data {default['data']}" if default else ""),
    ):
        if text:
            out.say(f"{label:<13}{text}", hanging=13)


def _show_question(kind: Question, function: Callable[..., Any], json: bool) -> None:
    from deepcanon.questions import filled

    facts = _facts_of_question(kind, function)
    subject = "" if kind == "study" else (" RUN" if "model" in filled(function) else " IMAGE")
    out = Output(json)
    _say_text(out, function.__name__, facts)
    out.say(f"run it     deepcanon {kind} {function.__name__}{subject}")
    out.result(facts)


def _facts_of_question(kind: Question, function: Callable[..., Any]) -> dict[str, Any]:
    from deepcanon.core.docstrings import read_docstring
    from deepcanon.questions import options_of

    text = read_docstring(function)
    return {
        kind: function.__name__,
        "summary": text.summary,
        "equations": text.equations,
        "references": text.references,
        "arguments": [
            _argument(name, parameter, text.arguments.get(name, ""))
            for name, parameter in options_of(function).items()
        ],
    }  # fmt: skip


def show_options(out: Output, command: str, name: str) -> None:
    """The options that a model, an insight or a study of this name adds to a command; nothing if there is none."""
    from deepcanon.blueprints import is_code, named
    from deepcanon.catalogue import FOLDERS, find_question, is_name, questions

    wanted = name.lower().replace("-", "_")
    if command in FOLDERS:
        kind: Question = "study" if command == "study" else "insight"
        if wanted not in {entry.name for entry in questions(kind)}:
            return
        facts = _facts_of_question(kind, find_question(kind, wanted))
    elif is_name(name) or is_code(name):
        found = named(name)
        facts = facts_of(found if isinstance(found, type) else type(found))
    else:
        return
    if facts["arguments"]:
        out.say(f"Options of {name}:")
        _say_arguments(out, facts)
    if "recipe" in facts:
        _say_recipe(out, facts, name)


def _say_text(out: Output, name: str, facts: Mapping[str, Any]) -> None:
    """The sentence, the equations, the papers and the arguments."""
    from deepcanon.core.unicode_math import in_unicode

    out.say(f"{name}: {'. '.join(filter(None, (facts.get('title'), facts['summary'])))}")
    if facts.get("also_known_as"):
        out.say(f"Also known as: {', '.join(facts['also_known_as'])}.")
    for equation in facts["equations"]:
        out.say()
        out.say("\n".join(f"    {line}" for line in in_unicode(equation).split("\n")))
    out.say()
    for reference in facts["references"]:
        out.say(reference)
    _say_arguments(out, facts)


def _say_arguments(out: Output, facts: Mapping[str, Any]) -> None:
    out.table(
        ["argument", "default", "takes", "meaning"],
        [(each["option"], each["default"], each["takes"], each["meaning"]) for each in facts["arguments"]],
    )


def facts_of(cls: type[Model[Any]]) -> dict[str, Any]:
    """The facts about a model that are shown."""
    from deepcanon.core import Model, arguments_of, methods_of
    from deepcanon.core.docstrings import read_docstring
    from deepcanon.core.spec import wrapped_by_default
    from deepcanon.data.suits import learns_from

    text = read_docstring(cls)
    wraps = hasattr(cls, "unwrapped")
    return {
        "model": cls.name(),
        "title": (inspect.getdoc(inspect.getmodule(cls)) or "").partition("\n")[0].removesuffix("."),
        "also_known_as": text.also_known_as,
        "summary": text.summary,
        "equations": text.equations,
        "references": text.references,
        "arguments": [
            _argument(name, parameter, text.arguments.get(name, ""), wrapped_by_default(cls, ()).get(name))
            for name, parameter in arguments_of(cls).items()
        ],
        "learns_from": learns_from(cls.batch_type()),
        "methods": methods_of(cls),
        "wraps": wraps,
        "default": _default(cls) if wraps else None,
        "recipe": {} if wraps and cls.recipe is Model.recipe else asdict(cls.recipe),
    }


def _default(cls: type[Model[Any]]) -> dict[str, str] | None:
    """The model that a method wraps if none is given, and the data that both then learn from, if there are any."""
    from deepcanon.blueprints import blueprint
    from deepcanon.data.suits import default_data

    asked = blueprint(cls)
    if asked.missing():
        return None
    try:
        return {"model": asked.inner[0].label, "data": default_data(asked).name}
    except UsageError:  # of data that do not come along
        return None


def _argument(name: str, parameter: Any, meaning: str, wrapped: str | None = None) -> dict[str, str]:
    from deepcanon.core import SIZES
    from deepcanon.core.annotations import describe_type, show_value

    if name in SIZES and parameter.default in (parameter.empty, None):
        default = "from the data"
    else:
        required = parameter.default is parameter.empty
        default = (wrapped or "required") if required else show_value(parameter.default)
    option = f"--{name}".replace("_", "-")
    return {"option": option, "default": default, "takes": describe_type(parameter.annotation), "meaning": meaning}
