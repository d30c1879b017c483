"""Docstrings of Python's standard library as a text, English with some code, character by character."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from importlib.abc import InspectLoader

import numpy as np
import torch

from deepcanon.core import DataError, Sequences
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.text.windows import windows as cut

MODULES = (
    "argparse", "calendar", "collections", "configparser", "contextlib", "_pydecimal", "difflib", "doctest", "enum",
    "fractions", "functools", "heapq", "inspect", "ipaddress", "json", "logging", "mailbox", "pickle", "random",
    "shutil", "smtplib", "statistics", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "typing", "uuid",
    "weakref",
)  # fmt: skip

TOKENS = ("\n", *map(chr, range(ord(" "), ord("~") + 1)))
"""The vocabulary: the newline and the printable characters of ASCII. Other characters are left out."""

CODES = np.full(128, -1)
CODES[[ord(token) for token in TOKENS]] = range(len(TOKENS))
"""The number of each character of ASCII in the vocabulary."""

LENGTH = 64
"""The number of tokens that are predicted in a window."""

TRAIN, VALID = 0.8, 0.1
"""The fractions of the text for training and validation; the end of it is the test split."""


@cache
def corpus(modules: tuple[str, ...] = MODULES) -> str:
    """All docstrings in the order of the modules and of the lines in them, an empty line between any two."""
    text = "\n\n".join(docstring for module in modules for docstring in _docstrings(ast.parse(_source(module))))
    known = set(TOKENS)
    return "".join(token for token in text if token in known)


def windows(text: str) -> Sequences:
    """The text cut into windows of ``LENGTH + 1`` tokens, as :func:`deepcanon.data.text.windows.windows` does.

    >>> windows("a" * (2 * LENGTH)).lengths
    tensor([65, 64])
    """
    return cut(torch.from_numpy(CODES[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]), LENGTH)


def load(entry: Entry) -> Dataset[Sequences]:
    """The corpus cut into three consecutive splits, and these into windows."""
    text = corpus()
    first, second = round(TRAIN * len(text)), round((TRAIN + VALID) * len(text))
    return entry.dataset(windows(text[:first]), windows(text[first:second]), windows(text[second:]))


def _source(module: str) -> str:
    """The module's source; it is found and read, never run."""
    spec = importlib.util.find_spec(module)
    source = spec.loader.get_source(module) if spec and isinstance(spec.loader, InspectLoader) else None
    if source is None:
        raise DataError(f"the text is made of docstrings, but this Python comes without the source of {module!r}")
    return source


def _docstrings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        docstring = ast.get_docstring(node)
        if docstring:
            yield docstring
    for child in ast.iter_child_nodes(node):
        yield from _docstrings(child)


TEXT = Entry(
    name="text",
    kind="text",
    shape=(LENGTH + 1,),
    sizes={"vocab": len(TOKENS), "length": LENGTH},
    counts=(),  # the docstrings differ from one version of Python to the next
    source=f"the docstrings of {len(MODULES)} modules of the standard library",
    load=load,
    vocabulary=TOKENS,
)
