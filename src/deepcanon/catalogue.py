"""The catalogue of models, insights and studies: the file tree itself.

``models/<family>/<name>.py`` and ``methods/<name>.py`` hold one model each, found by its file's name; a leading
underscore marks what a family shares. Other packages add models through the entry-point group ``deepcanon.models``.
``insights/<name>.py`` and ``studies/<name>.py`` hold an insight or a study where a function called as the file is
returns a ``Finding``. Listing reads the files as text, so that it needs no torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from deepcanon.core import Model
    from deepcanon.core.finding import Finding

GROUP = "deepcanon.models"

Question = Literal["insight", "study"]
"""What gives a finding: an insight looks at one model, a study trains many times."""

FOLDERS: dict[Question, str] = {"insight": "insights", "study": "studies"}


@dataclass(frozen=True)
class Entry:
    """One model: its ``name``, the ``family`` it belongs to, the ``module`` that holds it and its first sentence.

    Of an insight or a study the family says which of the two it is.
    """

    name: str
    family: str
    module: str
    summary: str


@cache
def entries() -> tuple[Entry, ...]:
    """All models, by family and name.

    >>> "vae" in [entry.name for entry in entries()]
    True
    """
    root = Path(__file__).parent
    files = [*root.glob("models/*/*.py"), *root.glob("methods/*.py")]
    own = [_entry(file, root) for file in files if not file.name.startswith("_")]
    others = [Entry(point.name, point.dist.name if point.dist else "other", point.module, "") for point in _points()]
    return tuple(sorted([*own, *others], key=lambda entry: (entry.family, entry.name)))


def find(name: str) -> type[Model[Any]]:
    """The class of a model by name; only its own file is imported.

    >>> find("VAE").__name__
    'VAE'
    >>> find("softmax_regresion")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: there is no model 'softmax_regresion'; did you mean softmax_regression?
    """
    wanted = name.lower().replace("-", "_")
    for entry in entries():
        if entry.name == wanted and entry.module.startswith(("deepcanon.models.", "deepcanon.methods.")):
            return model_in(importlib.import_module(entry.module))
    for point in _points():
        if name in (point.name, point.attr):
            return _checked(point.load(), point.value)
    raise unknown("model", name, [entry.name for entry in entries()], "'deepcanon list' shows all")


@cache
def questions(kind: Question) -> tuple[Entry, ...]:
    """All insights or all studies, by name."""
    root = Path(__file__).parent
    files = sorted((root / FOLDERS[kind]).glob("*.py"))
    asked = [(file, node) for file in files if (node := _asks(file)) is not None]
    return tuple(Entry(file.stem, kind, _module(file, root), _first_line(node)) for file, node in asked)


def find_question(kind: Question, name: str) -> Callable[..., Finding]:
    """The function of an insight or a study by name; only its own file is imported."""
    wanted = name.lower().replace("-", "_")
    for entry in questions(kind):
        if entry.name == wanted:
            function: Callable[..., Finding] = getattr(importlib.import_module(entry.module), wanted)
            return function
    raise unknown(kind, name, [entry.name for entry in questions(kind)], f"'deepcanon {kind}' shows all")


def model_in(module: Any, name: str | None = None) -> type[Model[Any]]:
    """The one model that a module defines, or the one of this name."""
    from deepcanon.core import Model, UsageError

    if name is not None:
        if not hasattr(module, name):
            raise UsageError(f"{module.__name__} has no class {name}")
        return _checked(getattr(module, name), name)
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Model) and value.__module__ == module.__name__
    ]
    concrete = [cls for cls in own if not inspect.isabstract(cls)]
    if len(concrete) != 1:
        raise UsageError(f"{module.__name__} must define one model, it defines {len(concrete)}")
    return concrete[0]


def _checked(cls: Any, where: str) -> type[Model[Any]]:
    from deepcanon.core import Model, UsageError

    if not (isinstance(cls, type) and issubclass(cls, Model)):
        raise UsageError(f"{where} is no deepcanon Model")
    return cls


def unknown(kind: str, name: str, known: list[str], remedy: str) -> Exception:
    """The error that tells of a name which is not among the known ones."""
    from deepcanon.core import UsageError

    near = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1)
    return UsageError(f"there is no {kind} {name!r}; {f'did you mean {near[0]}?' if near else remedy}")


@cache
def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _entry(file: Path, root: Path) -> Entry:
    return Entry(name=file.stem, family=file.parent.name, module=_module(file, root), summary=_summary(file))


def _module(file: Path, root: Path) -> str:
    return ".".join(["deepcanon", *file.relative_to(root).with_suffix("").parts])


def _summary(file: Path) -> str:
    """The first line of the docstring of the file's model: the class that is called as the file is, else the last."""
    classes = [node for node in _body(file) if isinstance(node, ast.ClassDef)]
    named = [node for node in classes if node.name.lower() == file.stem.replace("_", "")]
    return _first_line((named or classes)[-1]) if classes else ""


def _asks(file: Path) -> ast.FunctionDef | None:
    """The function that is called as its file is and returns a Finding."""
    functions = [node for node in _body(file) if isinstance(node, ast.FunctionDef) and node.name == file.stem]
    returning = [node for node in functions if node.returns is not None and ast.unparse(node.returns) == "Finding"]
    return returning[0] if returning else None


def _body(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body


def _first_line(node: ast.ClassDef | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]
