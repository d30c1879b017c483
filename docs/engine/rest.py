"""reStructuredText of the pages that are made from the file tree: titles, tables, code, pictures, docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence

SECTION = re.compile(r"^([A-Z]\w+):\n((?:[ ]+.*\n?|\n)*)", re.MULTILINE)


def title(text: str, line: str = "=") -> str:
    """A heading."""
    return f"{text}\n{line * len(text)}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> str:
    """A table, whose cells are reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in [head, *rows]:
        for number, cell in enumerate(row):
            lines.append(f"   {'* -' if number == 0 else '  -'} {' '.join(cell.split())}")
    return "\n".join([*lines, ""])


def code(language: str, text: str, *options: str) -> str:
    """A block of code."""
    body = "\n".join(f"   {line}" if line else "" for line in text.rstrip().split("\n"))
    return "\n".join([f".. code-block:: {language}", *(f"   {option}" for option in options), "", body, ""])


def figure(file: str, alt: str, caption: str, kind: str = "") -> str:
    """A picture with words for those who do not see it."""
    options = f"   :alt: {plain(alt)}\n" + (f"   :figclass: {kind}\n" if kind else "")
    return f".. figure:: {file}\n{options}\n   {plain(caption, escaped=True)}\n"


def folded(summary: str, body: str) -> str:
    """What is shown when a reader opens it."""
    inner = "\n".join(f"   {line}" if line else "" for line in body.split("\n"))
    return f".. answer:: {summary}\n\n{inner}\n"


def link(page: str, words: str) -> str:
    """A link to another page."""
    return f":doc:`{words} </{page}>`"


def plain(text: str, escaped: bool = False) -> str:
    """A text on one line; ``escaped`` where it is to mean itself in reStructuredText."""
    line = " ".join(text.split())
    return re.sub(r"([*`|\\_<>])", r"\\\1", line) if escaped else line


def body_of(text: str) -> str:
    """A docstring without its first line, its other names and its sections: sentences and equations."""
    paragraphs = SECTION.sub("", inspect.cleandoc(text)).partition("\n\n")[2]
    return re.sub(r"^Also known as:.*?(?:\n\n|\Z)", "", paragraphs, flags=re.DOTALL | re.MULTILINE).strip()


def section(text: str, name: str) -> str:
    """The text of one section of a docstring, such as its references."""
    found = {each[1]: each[2] for each in SECTION.finditer(inspect.cleandoc(text) + "\n")}
    return textwrap.dedent(found.get(name, "")).strip()


def arguments(text: str) -> dict[str, str]:
    """The arguments that a docstring describes, with their marks of reStructuredText."""
    found: dict[str, str] = {}
    name = ""
    for line in section(text, "Arguments").split("\n"):
        if match := re.match(r"(\w+):\s*(.*)", line):
            name, found[match[1]] = match[1], match[2]
        elif name:
            found[name] += f" {line.strip()}"
    return found


def page(*parts: str, orphan: bool = False) -> str:
    """A whole page; an orphan stands in no table of contents, which the theme would write into every page."""
    return "\n\n".join([*([":orphan:"] if orphan else []), *(part for part in parts if part)]) + "\n"


def contents(pages: Iterable[str]) -> str:
    """A table of contents that does not show on the page."""
    return "\n".join([".. toctree::", "   :hidden:", "", *(f"   /{each}" for each in pages), ""])
