"""The classes of a run: found in the catalogue, or given again by whoever opens the run.

Loading a run never runs code that the user did not name. What ``run.json`` says of where a class came from is read to
be shown, and never imported; only the classes of the catalogue, which includes those that installed packages have
registered, are found by themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deepcanon.blueprints import Classes, named
from deepcanon.catalogue import find as find_in_catalogue
from deepcanon.catalogue import is_name, registered
from deepcanon.core import Model, UsageError
from deepcanon.core.blueprint import Find
from deepcanon.core.named_code import origin_of
from deepcanon.core.plain_module import PlainModule
from deepcanon.runs.folder import RunFolder


def finder(run: RunFolder, own: Classes | None = None) -> Find:
    """Finds the classes of a run by name: those that are ``own``, given or named by the user, and the catalogue's.

    A file that has changed since the training is said on stderr.
    """
    many = () if own is None else own if isinstance(own, list | tuple) else (own,)
    given = {each.name(): each for each in (named(each) if isinstance(each, str) else each for each in many)}
    origins: Mapping[str, Mapping[str, str]] = run.info.get("classes", {})
    held = set(_names(run.info["model"]))
    for name in given.keys() - held:
        raise UsageError(f"{run.dir} holds {' and '.join(sorted(held))}, and no {name}: give the classes that it holds")
    for name, each in given.items():
        _say_changes(run, name, each if isinstance(each, type) else type(each), origins.get(name, {}))

    def find(name: str) -> type[Model[Any]] | Model[Any]:
        if name in given:
            return given[name]
        if name not in origins and is_name(name):
            return find_in_catalogue(name)
        origin = origins.get(name, {})
        found = registered(origin["module"], name) if "module" in origin else None
        if found is None:
            raise UsageError(_wanted(name, origin))
        _say_changes(run, name, found, origin)
        return found

    return find


def _names(described: Any) -> Iterator[str]:
    """The names of all models in the description of one."""
    if isinstance(described, dict):
        if described.keys() == {"model", "arguments"}:
            yield str(described["model"])
        for value in described.values():
            yield from _names(value)
    elif isinstance(described, list):
        for value in described:
            yield from _names(value)


def _wanted(name: str, origin: Mapping[str, str]) -> str:
    """The sentence on a class that has to be given."""
    if name == PlainModule.name():
        return (
            "it holds a plain module, which only you can build again: give PlainModule(module, loss) as model in "
            "Python, or --class FILE.py:NAME, a function that returns it"
        )
    why = "a class outside the catalogue, and a run does not run code that you do not name"
    code = origin.get("file") or origin.get("module")
    if code is None:
        return f"{name} is {why}: give it as model={name} in Python, or by --class FILE.py:{name}"
    if "file" in origin and not Path(code).is_file():
        return (
            f"{name} is {why}; it came from {code}, which is no longer there: say where it is by --class FILE.py:{name}"
        )
    return f"{name} is {why}: if you trust {code}, add --class {code}:{name}, or model={name} in Python"


def _say_changes(run: RunFolder, name: str, cls: type, origin: Mapping[str, str]) -> None:
    now = origin_of(cls)
    if "sha256" in origin and "sha256" in now and origin["sha256"] != now["sha256"]:
        sys.stderr.write(
            f"{now['file']} is not as it was when {run.dir} was begun, so that {name} may be another: its SHA-256 was "
            f"{origin['sha256'][:12]}... and is {now['sha256'][:12]}...\n"
        )
