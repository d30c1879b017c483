"""The catalogue of models, insights and studies: the file tree itself.

``models/<family>/<name>.py`` and ``methods/<name>.py`` hold one model each, found by its file's name; a leading
underscore marks what a family shares. Other packages add models through the entry-point group ``deepcanon.models``.
``insights/<name>.py`` and ``studies/<name>.py`` hold an insight or a study where a function called as the file is
returns a ``Finding``. Listing reads the files as text, so that it needs no torch.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deepcanon.core.docstrings import other_names
from deepcanon.core.errors import UsageError
from deepcanon.core.hints import unknown

if TYPE_CHECKING:
    from deepcanon.core import Finding, Model

GROUP = "deepcanon.models"

Question = Literal["insight", "study"]
"""The two sources of findings: an insight measures one model, a study trains many times."""

FOLDERS: dict[Question, str] = {"insight": "insights", "study": "studies"}


@dataclass(frozen=True)
class Entry:
    """One model: its ``name``, the ``family`` it belongs to, the ``module`` that holds it and its first sentence.

    ``title`` is its proper name and ``also_known_as`` are others. Of an insight or a study the family says which of the
    two it is.
    """

    name: str
    family: str
    module: str
    summary: str
    title: str = ""
    also_known_as: tuple[str, ...] = ()


@cache
def entries() -> tuple[Entry, ...]:
    """All models, by family and name.

    >>> "vae" in [entry.name for entry in entries()]
    True
    """
    root = Path(__file__).parent
    own = [_entry(file, root) for file in _files(root)]
    others = [Entry(point.name, point.dist.name if point.dist else "other", point.module, "") for point in _points()]
    return tuple(sorted([*own, *others], key=lambda entry: (entry.family, entry.name)))


def find(name: str) -> type[Model[Any]]:
    """The class of a model by name; only its own file is opened.

    >>> find("VAE").__name__
    'VAE'
    >>> find("softmax_regresion")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: there is no model 'softmax_regresion'; did you mean softmax_regression?
    """
    check_name(name)
    if (file := _file(name)) is not None:
        return model_in(importlib.import_module(_module(file, Path(__file__).parent)))
    point = next(point for point in _points() if name in (point.name, point.attr))
    return _checked(point.load(), point.value)


def is_name(name: str) -> bool:
    """Whether this is the name of a model."""
    return _file(name) is not None or any(name in (point.name, point.attr) for point in _points())


def check_name(name: str) -> None:
    """Refuse what is not the name of a model; no model is imported for it, and so no torch."""
    if not is_name(name):
        known = [*(file.stem for file in _files(Path(__file__).parent)), *(point.name for point in _points())]
        raise unknown("model", name, known, "'deepcanon list' shows all")


def arguments_in_file(name: str) -> dict[str, str] | None:
    """The constructor's arguments with their annotations as the file of a model writes them, which is not imported.

    None where they are not written there.

    >>> arguments_in_file("bagging")["model"]
    'Model[Any]'
    """
    file = _file(name)
    classes = [node for node in _body(file) if isinstance(node, ast.ClassDef)] if file else []
    found = [node for node in classes if node.name.lower() == name.lower().replace("-", "").replace("_", "")]
    bodies = [node for each in found for node in each.body if isinstance(node, ast.FunctionDef)]
    written = [node.args for node in bodies if node.name == "__init__"]
    if len(written) != 1 or written[0].vararg or written[0].kwarg:
        return None
    _, *arguments = (*written[0].posonlyargs, *written[0].args, *written[0].kwonlyargs)
    return {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in arguments}


@cache
def questions(kind: Question) -> tuple[Entry, ...]:
    """All insights or all studies, by name."""
    root = Path(__file__).parent
    files = sorted((root / FOLDERS[kind]).glob("*.py"))
    asked = [(file, node) for file in files if (node := _asks(file)) is not None]
    return tuple(Entry(file.stem, kind, _module(file, root), _first_line(node)) for file, node in asked)


def find_question(kind: Question, name: str) -> Callable[..., Finding]:
    """The function of an insight or a study by name; only its own file is imported."""
    entry = check_question(kind, name)
    function: Callable[..., Finding] = getattr(importlib.import_module(entry.module), entry.name)
    return function


def check_question(kind: Question, name: str) -> Entry:
    """The entry of an insight or a study by name; nothing is imported for it."""
    wanted = name.lower().replace("-", "_")
    for entry in questions(kind):
        if entry.name == wanted:
            return entry
    raise unknown(kind, name, [entry.name for entry in questions(kind)], f"'deepcanon {kind}' shows all")


def model_in(module: Any, name: str | None = None) -> type[Model[Any]]:
    """The one model that a module defines, or the one of this name."""
    from deepcanon.core import Model

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
    from deepcanon.core import Model

    if not (isinstance(cls, type) and issubclass(cls, Model)):
        raise UsageError(f"{where} is not a deepcanon Model")
    return cls


@cache
def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _file(name: str) -> Path | None:
    """The file of a model, if one of ours has this name."""
    wanted = name.lower().replace("-", "_")
    return next((file for file in _files(Path(__file__).parent) if file.stem == wanted), None)


def _files(root: Path) -> list[Path]:
    """The files of all models, by their names alone."""
    found = [*root.glob("models/*/*.py"), *root.glob("methods/*.py")]
    return [file for file in found if not file.name.startswith("_")]


def _entry(file: Path, root: Path) -> Entry:
    """The entry of a model: its module's docstring is the proper name, its class's says the rest.

    The class is the one that is called as the file is, else the last. The file is searched as text, which is several
    times faster than parsing it.
    """
    content = file.read_text(encoding="utf-8")
    title = inspect.cleandoc(found[1]).partition("\n")[0] if (found := _MODULE.match(content)) else ""
    classes = dict(_CLASS.findall(content))
    named = [name for name in classes if name.lower() == file.stem.replace("_", "")]
    text = inspect.cleandoc(classes[(named or list(classes))[-1]]) if classes else ""
    summary, others = text.partition("\n")[0], other_names(text)
    return Entry(file.stem, file.parent.name, _module(file, root), summary, title.removesuffix("."), others)


_MODULE = re.compile(r'\A(?:#[^\n]*\n)*r?"""(.*?)"""', re.DOTALL)
_CLASS = re.compile(r'^class (\w+)[^:\n]*(?:\([^)]*\))?:\n    r?"""(.*?)"""', re.DOTALL | re.MULTILINE)
"""The docstrings of a module and of its classes."""


def _module(file: Path, root: Path) -> str:
    return ".".join(["deepcanon", *file.relative_to(root).with_suffix("").parts])


def _asks(file: Path) -> ast.FunctionDef | None:
    """The function that is called as its file is and returns a Finding."""
    functions = [node for node in _body(file) if isinstance(node, ast.FunctionDef) and node.name == file.stem]
    returning = [node for node in functions if node.returns is not None and ast.unparse(node.returns) == "Finding"]
    return returning[0] if returning else None


def _body(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body


def _first_line(node: ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]
