"""The catalogue of models: the file tree itself.

``models/<family>/<name>.py`` and ``methods/<name>.py`` hold one model each, found by its file's name; a leading
underscore marks what a family shares. Other packages add models through the entry-point group ``deepcanon.models``.
Listing reads the files as text, so that it needs no torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepcanon.core import Model

GROUP = "deepcanon.models"


@dataclass(frozen=True)
class Entry:
    """One model: its ``name``, the ``family`` it belongs to, the ``module`` that holds it and its first sentence."""

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
    raise _unknown(name, wanted)


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


def _unknown(name: str, wanted: str) -> Exception:
    from deepcanon.core import UsageError

    near = difflib.get_close_matches(wanted, [entry.name for entry in entries()], n=1)
    advice = f"did you mean {near[0]}?" if near else "'deepcanon list' shows all"
    return UsageError(f"there is no model {name!r}; {advice}")


@cache
def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _entry(file: Path, root: Path) -> Entry:
    module = ".".join(["deepcanon", *file.relative_to(root).with_suffix("").parts])
    return Entry(name=file.stem, family=file.parent.name, module=module, summary=_summary(file))


def _summary(file: Path) -> str:
    """The first line of the docstring of the file's model: the class that is called as the file is, else the last."""
    classes = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    named = [node for node in classes if node.name.lower() == file.stem.replace("_", "")]
    text = ast.get_docstring((named or classes)[-1]) if classes else None
    return text.partition("\n")[0] if text else ""
