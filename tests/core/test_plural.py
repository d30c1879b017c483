"""One thing is said in the singular, wherever things are counted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import deepcanon
from deepcanon.core.plural import counted

SPOKEN = ("cli", "comparison", "insights", "studies", "pictures", "train", "runs", "microscopy")
"""The packages whose sentences people read."""

COUNTS = {
    "batches", "channels", "classes", "count", "deepest", "depth", "draws", "epochs", "examples", "features", "hidden",
    "layers", "members", "nodes", "parameters", "repeats", "samples", "seeds", "stages", "steps", "training", "units",
    "width",
}  # fmt: skip
"""What numbers of things are called."""

OTHERS = ("has", "was", "is", "as", "times", "series", "nats", "reaches", "positions", "inputs and")
"""Words that end in s and are no plural, or stand after a number in another sense."""

PLURAL = re.compile(rf" (?:[a-z-]+ )?(?!(?:{'|'.join(OTHERS)})\b)[a-z-]+s\b")


def test_the_singular_is_for_one_alone() -> None:
    assert [counted(count, "layer") for count in (0, 1, 2)] == ["0 layers", "1 layer", "2 layers"]
    assert counted(1, "class", plural="classes") == "1 class"
    assert counted(12345, "class", ",", "classes") == "12,345 classes"


def is_count(node: ast.expr) -> bool:
    """Whether an expression is the number of some things, by its looks."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "len"
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in COUNTS
    return (isinstance(node, ast.Name) and node.id in COUNTS) or (
        isinstance(node, ast.Attribute) and node.attr in COUNTS
    )


def uncounted(source: str) -> Iterator[tuple[int, str]]:
    """The places where a number of things stands right before a noun in the plural, whatever it is."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant) and is_count(value.value):
                    found = PLURAL.match(str(text.value))
                    if found:
                        yield node.lineno, ast.unparse(value.value) + found[0]


def test_the_scan_finds_what_it_is_for() -> None:
    assert [words for _, words in uncounted('f"{depth} hidden layers of {width} units"')] == [
        "depth hidden layers",
        "width units",
    ]
    assert not [*uncounted("f\"{counted(depth, 'hidden layer')}, {name} layers\"")]


@pytest.mark.slow
def test_no_sentence_puts_a_plural_after_any_number() -> None:
    root = Path(deepcanon.__file__).parent
    found = [
        f"{file.relative_to(root)}:{line}: {words}"
        for package in SPOKEN
        for file in sorted((root / package).rglob("*.py"))
        for line, words in uncounted(file.read_text(encoding="utf-8"))
    ]
    assert found == []
