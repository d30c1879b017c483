"""The command that shows one model."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli.output import Json, Output

if TYPE_CHECKING:
    from deepcanon.core import Model


def show(
    name: Annotated[str, typer.Argument(help="The name of a model, as 'deepcanon list' shows it.")],
    json: Json = False,
) -> None:
    """Show a model: its equation, paper, arguments, verbs and recipe."""
    from deepcanon.catalogue import find

    facts = facts_of(find(name))
    out = Output(json)
    out.say(f"{facts['model']}: {facts['summary']}")
    for equation in facts["equations"]:
        out.say()
        out.say("\n".join(f"    {line}" for line in equation.split("\n")))
    out.say()
    for reference in facts["references"]:
        out.say(reference)
    out.table(
        ["argument", "default", "takes", "meaning"],
        [(each["option"], each["default"], each["takes"], each["meaning"]) for each in facts["arguments"]],
    )
    recipe = ", ".join(f"{setting} {value}" for setting, value in facts["recipe"].items() if value is not None)
    verbs = [*facts["verbs"], *(["what the model it wraps can"] if facts["wraps"] else [])]
    required = [each["option"] for each in facts["arguments"] if each["default"] == "required"]
    out.say(f"learns from  {facts['learns_from']}")
    out.say(f"can          {', '.join(verbs) or 'learn; it has no further verb'}")
    out.say(f"recipe       {recipe or 'that of the model it wraps'}")
    out.say(" ".join([f"train it     deepcanon train {facts['model']}", *(f"{o} {o[2:].upper()}" for o in required)]))
    out.answer(facts)


def facts_of(cls: type[Model[Any]]) -> dict[str, Any]:
    """All that is to be told of a model."""
    from deepcanon.cli.docstrings import read_docstring
    from deepcanon.cli.suits import food
    from deepcanon.core import Model, arguments_of, verbs

    text = read_docstring(cls)
    wraps = hasattr(cls, "unwrapped")
    return {
        "model": cls.name(),
        "summary": text.summary,
        "equations": text.equations,
        "references": text.references,
        "arguments": [
            _argument(name, parameter, text.arguments.get(name, "")) for name, parameter in arguments_of(cls).items()
        ],
        "learns_from": food(cls.eats()),
        "verbs": verbs(cls),
        "wraps": wraps,
        "recipe": {} if wraps and cls.recipe is Model.recipe else asdict(cls.recipe),
    }


def _argument(name: str, parameter: Any, meaning: str) -> dict[str, str]:
    from deepcanon.cli.arguments import describe_type, show_value
    from deepcanon.core import SIZES

    if name in SIZES and parameter.default in (parameter.empty, None):
        default = "from the data"
    else:
        default = "required" if parameter.default is parameter.empty else show_value(parameter.default)
    option = f"--{name}".replace("_", "-")
    return {"option": option, "default": default, "takes": describe_type(parameter.annotation), "meaning": meaning}
