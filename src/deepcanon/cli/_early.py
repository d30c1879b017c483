"""Mistakes in a command line that are seen by names alone, before anything imports torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import deepcanon
from deepcanon.catalogue import arguments_in_file, check_name, is_name
from deepcanon.core.errors import UsageError
from deepcanon.core.hints import did_you_mean, unknown_option
from deepcanon.core.named_code import names_code

Options = Mapping[str, Sequence[str]]
"""Options with the words that followed each of them."""


def check_model(
    name: str, options: Options = MappingProxyType({}), others: Sequence[str] = (), prefix: str = "--"
) -> None:
    """Refuse a model that is not there, or an option that it does not take; what is inside it is checked alike.

    ``others`` are the command's own options, for advice on a misspelling.
    """
    if _is_place(name):
        return
    check_name(name)
    takes = arguments_in_file(name)
    if takes is None:
        return
    for option, words in options.items():
        argument, dot, _ = option.partition(".")
        switched = argument.removeprefix("no_") if not words and argument not in takes else argument
        if switched not in takes:
            raise unknown_option(name.lower().replace("-", "_"), argument, prefix, [*takes, *others])
        if "Model[" in takes[switched] and not dot and len(words) == 1:
            inside = f"{argument}."
            own = {key.removeprefix(inside): given for key, given in options.items() if key.startswith(inside)}
            check_model(words[0], own, prefix=f"{prefix}{inside}")


def check_data(name: str | None) -> None:
    """Refuse data that are neither known by name nor there; where they are to be found is asked later."""
    if name is None or Path(name).exists():
        return
    base = Path(name.partition(":")[0]).expanduser()
    if len(base.parts) != 1 or base.suffix or base.exists():
        return
    known = data_names()
    if any(each.partition(":")[0] == str(base) for each in known):  # itself, or a collection: uci:yacht
        return
    raise UsageError(f"there are no data {str(base)!r}; {did_you_mean(str(base), known)}")


def data_names() -> list[str]:
    """The names of the data sets, read off their files: those of the entries, each of which is written out."""
    files = sorted((Path(deepcanon.__file__).parent / "data" / "sets").glob("*.py"))
    return [name for file in files for name in re.findall(r'^    name="(.+)",$', file.read_text("utf-8"), re.MULTILINE)]


def _is_place(name: str) -> bool:
    """Whether this names code, a file or a folder rather than a model."""
    named = names_code(name) or len(Path(name).parts) != 1 or Path(name).exists() or Path(name).suffix != ""
    return named and not is_name(name)
