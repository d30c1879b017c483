"""Stubs of the packages of models and methods: ``python -m deepcanon.stubs`` writes them anew from the file tree."""

from __future__ import annotations

import ast
from pathlib import Path

from deepcanon.core.files import write_whole

ROOT = Path(__file__).parent

LONGEST = 120
"""The letters of the longest line."""


def stub_of(package: str) -> str:
    """The text of the stub of ``models`` or ``methods``: each class by the module that defines it.

    >>> "from deepcanon.models.flows.realnvp import RealNVP as RealNVP" in stub_of("models")
    True
    """
    files = sorted(ROOT.glob("models/*/*.py" if package == "models" else "methods/*.py"))
    leaves = [file for file in files if not file.name.startswith("_")]
    homes = {_class_in(file): ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in leaves}
    return "".join(_import(module, name) for name, module in homes.items())


def _import(module: str, name: str) -> str:
    """The line that imports a class, in brackets where it would be too long."""
    line = f"from deepcanon.{module} import {name} as {name}\n"
    return line if len(line) <= LONGEST + 1 else f"from deepcanon.{module} import (\n    {name} as {name},\n)\n"


def _class_in(file: Path) -> str:
    """The class that is called as the file is, else the last one."""
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    names = [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return next((name for name in names if name.lower() == file.stem.replace("_", "")), names[-1])


if __name__ == "__main__":
    for package in ("models", "methods"):
        write_whole(ROOT / package / "__init__.pyi", stub_of(package))
