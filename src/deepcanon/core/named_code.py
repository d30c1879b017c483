"""Code that a user names, ``FILE.py:Name`` or ``MODULE:Name``, and where a class comes from."""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from deepcanon.core.errors import UsageError

_NAMED = re.compile(r"(?P<where>[^:=]+):(?P<name>[^\W\d]\w*)")
_READ: dict[str, tuple[Path, str]] = {}
"""Of each module that was made of a file here, the file and the SHA-256 of what was in it then."""


def names_code(text: str) -> bool:
    """Whether a text has the form of ``FILE.py:Name`` or ``MODULE:Name``; the options of a model have a ``=``.

    >>> names_code("mine.py:Net"), names_code("package.nets:Net"), names_code("vae:latent=4"), names_code("vae")
    (True, True, False, False)
    """
    return _NAMED.fullmatch(text) is not None


def load_named(text: str) -> Any:
    """What ``FILE.py:Name`` or ``MODULE:Name`` names: code that the user wants to run.

    A file is a module under a name that hides no other, and can import the files next to it. A module is imported as
    Python would, and then looked for in the current folder.
    """
    found = _NAMED.fullmatch(text)
    if found is None:
        raise UsageError(f"write FILE.py:Name or MODULE:Name, the name of a class or function there (got {text!r})")
    where, name = found["where"], found["name"]
    path = Path(where)
    module = _from_file(path) if path.suffix or len(path.parts) > 1 or path.is_file() else _from_module(where)
    if not hasattr(module, name):
        there = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        raise UsageError(f"{where} has no {name}; it has {', '.join(there) or 'no class or function'}")
    return getattr(module, name)


@cache
def origin_of(cls: type) -> dict[str, str]:
    """Where a class comes from: the ``file`` with its ``sha256``, and the ``module`` if it is one by name.

    It is looked up once: a file that is edited later does not change where the class came from. Nothing is known of a
    class of a notebook or of a function. The files of deepcanon have its version in their place.

    >>> origin_of(Path)["module"], origin_of(UsageError)
    ('pathlib', {'module': 'deepcanon.core.errors'})
    """
    if "<locals>" in cls.__qualname__:
        return {}
    name = cls.__module__
    if name in _READ:
        path, sha256 = _READ[name]
        return {"file": str(path), "sha256": sha256}
    found = {} if name == "__main__" else {"module": name}
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or not Path(file).is_file() or name.startswith("deepcanon."):
        return found
    return {**found, "file": str(Path(file).resolve()), "sha256": _sha256(Path(file).read_bytes())}


def _from_module(name: str) -> ModuleType:
    """The module of this name; the current folder is searched last, so that what is in it hides nothing."""
    importlib.invalidate_caches()
    with _importing(name), _searched(os.getcwd(), first=False):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # something that the module needs
            raise UsageError(
                f"there is no module {name!r} that can be imported from here; a file is named FILE.py:Name"
            ) from error


def _from_file(path: Path) -> ModuleType:
    """The file as a module; the same file with the same content is the same module."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    place = path.resolve()
    loader = _Source(place, path.read_bytes())
    sha256 = _sha256(loader.source)
    name = f"_own_{_sha256(f'{place} {sha256}'.encode())[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, place, loader=loader)
    if spec is None or place.suffix != ".py":
        raise UsageError(f"{path} is not a Python file")
    if name in _READ:
        return sys.modules[name]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations of the file look their module up
    _READ[name] = (place, sha256)
    try:
        with _importing(str(path)), _searched(str(place.parent), first=True):
            loader.exec_module(module)
    except BaseException:
        del sys.modules[name], _READ[name]
        raise
    return module


class _Source(importlib.abc.ExecutionLoader):
    """A loader that runs what was read, whose checksum is known, and nothing that was compiled before."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.path = path
        self.source = source

    def get_filename(self, fullname: str) -> str:
        return str(self.path)

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self.source)


@contextmanager
def _importing(what: str) -> Iterator[None]:
    """Whatever goes wrong in the code of a user as it is imported, as a sentence."""
    try:
        yield
    except UsageError:
        raise
    except SystemExit as error:
        raise UsageError(f"{what} calls sys.exit({error.code!r}) when it is imported; take that out") from error
    except Exception as error:
        raise UsageError(f"{what} cannot be imported: {type(error).__name__}: {error}") from error


@contextmanager
def _searched(folder: str, *, first: bool) -> Iterator[None]:
    """With a folder among those in which modules are searched, the first or the last of them."""
    if folder in sys.path and not first:
        yield
        return
    sys.path.insert(0 if first else len(sys.path), folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
