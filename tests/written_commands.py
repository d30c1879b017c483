"""Commands that stand in a text, and what of one is not there: the command, an option, a model, data."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Any

from typer.main import get_command

from deepcanon.catalogue import Question, find_question
from deepcanon.cli._early import check_data, check_model
from deepcanon.cli.app import app
from deepcanon.core import UsageError
from deepcanon.questions import options_of

INLINE = re.compile(r"`(deepcanon [a-z][^`]*)`")
BLOCK = re.compile(r"^(```+)(.*?)\n(.*?)^\1$|^(?: {3}[^\n]*\n)+", re.DOTALL | re.MULTILINE)
"""A block of Markdown, or of reStructuredText."""
LINE = re.compile(r"^ *(?:\S*/bin/|torchrun .*-m )?(deepcanon [a-z].*?)(?: {2,}.*)?$", re.MULTILINE)
"""A command in a line of its own; what stands far behind it explains it."""
NAMED = ("train", "show", "doctor", "microscope", "compare", "insight")
"""Commands that name models."""
BUILT = ("train", "insight")
"""Commands whose further options are arguments of the model; those of a class of the reader's are not known."""


def commands(text: str) -> list[str]:
    """The commands of a text: in backquotes, or in lines of their own; those of cells are run, and left out here."""
    joined = re.sub(r"\\\n\s*", " ", text)
    blocks = [found[3] or found[0] for found in BLOCK.finditer(joined) if "{code-cell}" not in (found[2] or "")]
    return [*INLINE.findall(joined), *(line for block in blocks for line in LINE.findall(block))]


def fault(line: str) -> str | None:
    """What of a command is not there; words in capitals, paths and what is called ``my_`` are the reader's."""
    _, name, *words = shlex.split(line, comments=True)
    command = _group().commands.get(name)
    if command is None:
        return f"there is no command {name}"
    given = _options(words)
    known = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
    own = {option: values for option, values in given.items() if option not in {*known, "--help"}}
    first = words[: next((place for place, word in enumerate(words) if word.startswith("-")), len(words))]
    try:
        if name in ("insight", "study") and first:
            kind: Question = "study" if name == "study" else "insight"
            asked = first.pop(0)
            taken = options_of(find_question(kind, asked)) if _is_ours(asked) else map(_python, own)
            own = {option: own[option] for option in {*own} - {*map(_option, taken)}}
        arguments = {_python(option): values for option, values in own.items()} if name in BUILT else {}
        for model in first if name in NAMED else []:
            if _is_ours(model):
                check_model(model.partition(":")[0], arguments)
        for data in given.get("--data", []):
            check_data(data if _is_ours(data) else None)
    except UsageError as error:
        return str(error)
    return f"{name} has no {', '.join(own)}" if own and name not in BUILT else None


def _is_ours(word: str) -> bool:
    """Whether a word is the name of something of the library's, and not in the place of something of the reader's."""
    return re.fullmatch(r"(?!my_)[a-z][\w-]*(:[\w=,./:-]*)?", word) is not None


def _options(words: list[str]) -> dict[str, list[str]]:
    """The options with the words behind each."""
    found: dict[str, list[str]] = {}
    last = ""
    for word in words:
        if re.match(r"--?[a-z]", word):
            last, _, value = word.partition("=")
            found[last] = [value] if value else []
        elif last and not word.isupper():
            found[last].append(word)
    return found


def _python(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _option(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"


@cache
def _group() -> Any:
    return get_command(app)
