"""Lazy packages: what a package offers is imported when it is first asked for.

The stub ``__init__.pyi`` next to the package's ``__init__.py`` lists what it offers, one ``from MODULE import NAME as
NAME`` each. Editors and type checkers read it, and so does :func:`attach`: there is no second list.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package with a stub.

    >>> import deepcanon
    >>> "fit" in dir(deepcanon)
    True
    """
    module = sys.modules[package]
    offers = _offers(Path(str(module.__file__)).with_suffix(".pyi"))

    def __getattr__(name: str) -> Any:
        if name not in offers:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = offers[name]
        inside = home == package  # a package inside this one
        value = importlib.import_module(f"{home}.{name}") if inside else getattr(importlib.import_module(home), name)
        setattr(module, name, value)  # asked for once
        return value

    return (
        __getattr__,
        lambda: sorted({*offers, *(name for name in vars(module) if name.startswith("__"))}),
        sorted(offers),
    )


def listing(package: str) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module that imports what it offers at once: what its ``__all__`` names, and nothing else.

    What it imports for its own use, and the files of a package, are not for those who complete a name.

    >>> import deepcanon.data
    >>> "load_data" in dir(deepcanon.data), "Any" in dir(deepcanon.data)
    (True, False)
    """
    module = sys.modules[package]
    return lambda: sorted({*module.__all__, *(name for name in vars(module) if name.startswith("__"))})


def _offers(stub: Path) -> dict[str, str]:
    """For each name that the stub exports, the module that holds it."""
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {a.name: str(node.module) for node in imports for a in node.names if a.asname == a.name}
