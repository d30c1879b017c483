"""A parser of the docstrings of models, insights and studies: summary, other names, equations, papers, arguments."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from deepcanon.core.unicode_math import in_unicode


@dataclass(frozen=True)
class Docstring:
    """A parsed docstring, as ``deepcanon show`` prints it."""

    summary: str
    also_known_as: tuple[str, ...]
    """Other names of the same thing, from the paragraph ``Also known as: one name, another name.``"""
    equations: tuple[str, ...]
    references: tuple[str, ...]
    arguments: dict[str, str]


def read_docstring(owner: object) -> Docstring:
    """The parts of the docstring of a class or a function.

    >>> from deepcanon.core.toy import Toy
    >>> read_docstring(Toy).arguments
    {'features': 'The dimension D of the data.'}
    """
    return read_text(inspect.getdoc(owner) or "")


def read_text(text: str) -> Docstring:
    """The parts of a docstring that is at hand as text."""
    references = "\n".join(_section(text, "References"))
    return Docstring(
        summary=_plain(text.partition("\n\n")[0]),
        also_known_as=other_names(text),
        equations=tuple(_equations(text)),
        references=tuple(
            _plain(item) for item in re.split(r"^\s*\|\s*", references, flags=re.MULTILINE) if item.strip()
        ),
        arguments=_arguments(_section(text, "Arguments")),
    )


def other_names(text: str) -> tuple[str, ...]:
    """The names in the paragraph that begins with ``Also known as:``.

    >>> other_names("An RNN.\\n\\nAlso known as: Elman network, simple\\nrecurrent network.\\n\\nMore.")
    ('Elman network', 'simple recurrent network')
    """
    found = re.search(r"^Also known as: (.*?)\.?\s*(?:\n\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return tuple(_plain(name) for name in found[1].split(",")) if found else ()


def _equations(text: str) -> list[str]:
    """The bodies of the ``.. math::`` blocks, which go on as long as the lines are indented."""
    blocks = re.findall(r"^\.\. math::[ ]*(.*(?:\n(?:[ ]+.*|[ ]*$))*)", text, flags=re.MULTILINE)
    return [inspect.cleandoc(block).strip() for block in blocks]


def _section(text: str, title: str) -> list[str]:
    """The indented lines under a title."""
    lines = text.partition(f"\n{title}:\n")[2].split("\n")
    end = next((i for i, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    return inspect.cleandoc("\n".join(["", *lines[:end]])).split("\n")


def _arguments(lines: list[str]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    name = ""
    for line in lines:
        if match := re.match(r"(\w+):\s*(.*)", line):
            name, arguments[match[1]] = match[1], match[2]
        elif name:
            arguments[name] += f" {line.strip()}"
    return {name: _plain(text) for name, text in arguments.items()}


def _plain(text: str) -> str:
    """The text without the marks of reStructuredText, on one line."""
    text = re.sub(r":math:`([^`]*)`", lambda found: in_unicode(found[1]), text)
    text = re.sub(r":\w+:`([^`]*)`", r"\1", text)
    return " ".join(text.replace("``", "").split())
