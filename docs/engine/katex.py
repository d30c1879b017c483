"""Mathematics as HTML when the book is built: KaTeX, run in V8, so that readers need neither script nor network."""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "static" / "katex"
TOKEN = re.compile(r"\\(?:begin|end)\{\w+\*?\}|\\[a-zA-Z]+|\\.|[{}]|.", re.DOTALL)
OPENS = re.compile(r"\{|\\left|\\begin\{.*\}")
CLOSES = re.compile(r"\}|\\right|\\end\{.*\}")
ENDS = 3 * "</span>"
"""How KaTeX ends a formula: its last piece, the visible part, and all of it."""
NUMBER = re.compile(r"\(\d+\w?\)")


class MathError(Exception):
    """A formula that KaTeX cannot read."""


def changed_files() -> list[str]:
    """The files of KaTeX that are not as they were published, or missing."""
    listed = (line.split("  ") for line in (FOLDER / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
    return [name for digest, name in listed if not (FOLDER / name).is_file() or _digest(FOLDER / name) != digest]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def inline(tex: str, after: str = "") -> str:
    """A formula in a line of text, and the punctuation after it, which stands in the last piece that is not broken."""
    kept = f'<span class="after">{after}</span>' if after else ""
    return f'<span class="math">{_rendered(tex, display=False).removesuffix(ENDS)}{kept}{ENDS}</span>'


@cache
def displayed(tex: str) -> str:
    """A formula in lines of its own: pieces between which a narrow screen may break, and its number at the right."""
    parts = pieces(aligned(tex))
    number = f'<span class="number">{parts.pop()}</span>' if len(parts) > 1 and NUMBER.fullmatch(parts[-1]) else ""
    shown = "".join(f'<span class="piece">{_rendered(part, display=True)}</span>' for part in parts)
    return f'<div class="math"><div class="formula">{shown}</div>{number}</div>'


def aligned(tex: str) -> str:
    r"""A formula of several lines in the environment that KaTeX wants for them.

    >>> aligned(r"a &= b \\ c &= d")
    '\\begin{aligned}a &= b \\\\ c &= d\\end{aligned}'
    """
    outside = [token for token, depth in _tokens(tex) if depth == 0]
    if not {"\\\\", "&"} & {*outside}:
        return tex
    body, _, number = tex.rpartition(r"\qquad")
    if NUMBER.fullmatch(number.strip()):
        return rf"\begin{{aligned}}{body.strip()}\end{{aligned}} \qquad {number.strip()}"
    return rf"\begin{{aligned}}{tex.strip()}\end{{aligned}}"


def pieces(tex: str) -> list[str]:
    r"""The parts of a formula between the wide spaces at its top level.

    >>> pieces(r"a = \text{b \qquad c}, \qquad d \qquad (1)")
    ['a = \\text{b \\qquad c},', 'd', '(1)']
    """
    found = [""]
    for token, depth in _tokens(tex):
        if depth == 0 and token == r"\qquad":
            found.append("")
        else:
            found[-1] += token
    return [part.strip() for part in found if part.strip()]


def _tokens(tex: str) -> list[tuple[str, int]]:
    """The commands and characters of a formula, each with the number of groups around it."""
    depth, found = 0, []
    for token in TOKEN.findall(tex):
        depth -= bool(CLOSES.fullmatch(token))
        found.append((token, depth))
        depth += bool(OPENS.fullmatch(token))
    return found


def _rendered(tex: str, display: bool) -> str:
    try:
        html: str = _engine(os.getpid()).call("katex.renderToString", tex, {"displayMode": display, "strict": "ignore"})
    except Exception as error:
        raise MathError(f"KaTeX cannot read {tex!r}: {str(error).splitlines()[0]}") from error
    return html


@cache
def _engine(process: int) -> Any:
    """The engine of a process: a thread runs it, which a fork leaves behind."""
    from py_mini_racer import MiniRacer

    engine = MiniRacer()
    engine.eval((FOLDER / "katex.min.js").read_text(encoding="utf-8"))
    return engine


def close() -> None:
    """End the engine of this process, whose thread would keep it from ending."""
    if _engine.cache_info().currsize:
        _engine(os.getpid()).close()
        _engine.cache_clear()
