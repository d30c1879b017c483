"""The catalogue of models, insights and studies: the file tree itself.

``models/<family>/<name>.py`` and ``methods/<name>.py`` hold one model each, found by its file's name; a leading
underscore marks what a family shares. Installed packages add models by the entry-point group ``deepcanon.models``.
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
    taken = {entry.name for entry in own}
    others = [_registered(point, hidden=_plain(point.name) in taken) for point in _points()]
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
    return _loaded(next(point for point in _points() if _names(point, name)))


def is_name(name: str) -> bool:
    """Whether this is the name of a model."""
    return _file(name) is not None or any(_names(point, name) for point in _points())


def check_name(name: str) -> None:
    """Refuse what is not the name of a model; no model is imported for it, and so no torch."""
    if not is_name(name):
        known = [*(file.stem for file in _files(Path(__file__).parent)), *(point.name for point in _points())]
        raise unknown("model", name, known, "'deepcanon list' shows all")


def arguments_in_file(name: str) -> dict[str, str] | None:
    """The constructor's arguments with their annotations as the file of a model writes them, which is not imported.

    Where the engine of its family writes them, they are read there; None where neither does.

    >>> arguments_in_file("bagging")["model"]
    'Model[Any]'
    """
    file = _file(name)
    classes = [node for node in _body(file) if isinstance(node, ast.ClassDef)] if file else []
    found = [node for node in classes if node.name.lower() == _plain(name).replace("_", "")] or classes[-1:]
    written = [_constructor(each, file) for each in found if file]
    if len(written) != 1 or written[0] is None or written[0].vararg or written[0].kwarg:
        return None
    _, *arguments = (*written[0].posonlyargs, *written[0].args, *written[0].kwonlyargs)
    return {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in arguments}


def registered(module: str, name: str) -> type[Model[Any]] | None:
    """The class of this module and name, if an installed package has registered it; else nothing is imported."""
    found = (_loaded(point) for point in _points() if point.attr == name)
    return next((cls for cls in found if cls.__module__ == module), None)


def name_of(cls: type[Model[Any]]) -> str:
    """The name by which :func:`find` finds a class."""
    points = (point for point in _points() if point.attr == cls.__name__)
    return next((point.name for point in points if _loaded(point) is cls), cls.name())


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
    wanted = _plain(name)
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


def _plain(name: str) -> str:
    """A name as that of a file: case does not matter, and hyphens are underscores."""
    return name.lower().replace("-", "_")


@cache
def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _file(name: str) -> Path | None:
    """The file of a model, if one of ours has this name."""
    wanted = _plain(name)
    return next((file for file in _files(Path(__file__).parent) if file.stem == wanted), None)


def _names(point: EntryPoint, name: str) -> bool:
    """Whether a name is that of another package's model, or of its class."""
    return _plain(name) == _plain(point.name) or name == point.attr


def _loaded(point: EntryPoint) -> type[Model[Any]]:
    try:
        found = point.load()
    except (Exception, SystemExit) as error:  # whatever someone else's package does when it is imported
        raise UsageError(f"{_words(point)} cannot be imported: {type(error).__name__}: {error}") from error
    return _checked(found, _words(point))


def _words(point: EntryPoint) -> str:
    return f"{point.value}, which {point.dist.name if point.dist else 'a package'} adds as {point.name},"


def _registered(point: EntryPoint, *, hidden: bool) -> Entry:
    """The entry of a model of another package, read off its file, if that is where the package says, as text."""
    family = point.dist.name if point.dist else "other"
    if hidden:
        words = f"Hidden by deepcanon's own model of this name; as {point.value} it is found all the same."
        return Entry(point.name, family, point.module, words)
    place = Path(*point.module.split("."))
    places = [place.with_suffix(".py"), place / "__init__.py"] if point.dist else []
    files = (Path(str(point.dist.locate_file(each))) for each in places if point.dist)
    file = next((each for each in files if each.is_file()), None)
    content = "" if file is None else file.read_text(encoding="utf-8", errors="replace")
    summary, others = _described(content, point.attr)
    return Entry(point.name, family, point.module, summary or f"{point.attr} of {point.module}", "", others)


@cache
def _files(root: Path) -> tuple[Path, ...]:
    """The files of all models, by their names alone."""
    found = [*root.glob("models/*/*.py"), *root.glob("methods/*.py")]
    return tuple(file for file in found if not file.name.startswith("_"))


def _entry(file: Path, root: Path) -> Entry:
    """The entry of a model: its module's docstring is the proper name, its class's says the rest.

    The class is the one that is called as the file is, else the last. The file is searched as text, which is several
    times faster than parsing it.
    """
    content = file.read_text(encoding="utf-8")
    title = inspect.cleandoc(found[1]).partition("\n")[0] if (found := _MODULE.match(content)) else ""
    summary, others = _described(content, file.stem.replace("_", ""))
    return Entry(file.stem, file.parent.name, _module(file, root), summary, title.removesuffix("."), others)


def _described(content: str, name: str) -> tuple[str, tuple[str, ...]]:
    """The first line of what a file says of the class of this name, else of its last, and the class's other names."""
    classes = dict(_CLASS.findall(content))
    named = [each for each in classes if each.lower() == name.lower()]
    text = inspect.cleandoc(classes[(named or list(classes))[-1]]) if classes else ""
    return text.partition("\n")[0], other_names(text)


_MODULE = re.compile(r'\A(?:#[^\n]*\n)*r?"""(.*?)"""', re.DOTALL)
_CLASS = re.compile(r'^class (\w+)[^:\n]*(?:\([^)]*\))?:\n    r?"""(.*?)"""', re.DOTALL | re.MULTILINE)
"""The docstrings of a module and of its classes."""


def _module(file: Path, root: Path) -> str:
    return ".".join(["deepcanon", *file.relative_to(root).with_suffix("").parts])


def _constructor(cls: ast.ClassDef, file: Path) -> ast.arguments | None:
    """The arguments of a class's own constructor, or of that of its first base in an engine of the same folder."""
    own = [node.args for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    if own or not cls.bases:
        return own[0] if own else None
    base = ast.unparse(cls.bases[0]).partition("[")[0]
    for engine in sorted(file.parent.glob("_*.py")):
        for node in _body(engine):
            if isinstance(node, ast.ClassDef) and node.name == base:
                return _constructor(node, engine)
    return None


def _asks(file: Path) -> ast.FunctionDef | None:
    """The function that is called as its file is and returns a Finding."""
    functions = [node for node in _body(file) if isinstance(node, ast.FunctionDef) and node.name == file.stem]
    returning = [node for node in functions if node.returns is not None and ast.unparse(node.returns) == "Finding"]
    return returning[0] if returning else None


def _body(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body


def _first_line(node: ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]
