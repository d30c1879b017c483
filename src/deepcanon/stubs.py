"""Stubs of the packages of models and methods: ``python -m deepcanon.stubs`` writes them anew from the file tree."""

from __future__ import annotations

import ast
from pathlib import Path

from deepcanon.core.files import write_whole

ROOT = Path(__file__).parent


def stub_of(package: str) -> str:
    """The text of the stub of ``models`` or ``methods``: each class by the module that defines it.

    >>> "from deepcanon.models.flows.realnvp import RealNVP as RealNVP" in stub_of("models")
    True
    """
    files = sorted(ROOT.glob("models/*/*.py" if package == "models" else "methods/*.py"))
    leaves = [file for file in files if not file.name.startswith("_")]
    homes = {_class_in(file): ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in leaves}
    return "".join(f"from deepcanon.{module} import {name} as {name}\n" for name, module in homes.items())


def _class_in(file: Path) -> str:
    """The class that is called as the file is, else the last one."""
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    names = [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return next((name for name in names if name.lower() == file.stem.replace("_", "")), names[-1])


if __name__ == "__main__":
    for package in ("models", "methods"):
        write_whole(ROOT / package / "__init__.pyi", stub_of(package))
