"""The display of objects: one short line of text, and a small table where a notebook displays them.

Everything that is shown is cut to a few words and escaped: a name in a data set or in a run may hold anything.
"""

from __future__ import annotations

import base64
import html
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor

from deepcanon.core.errors import shortened
from deepcanon.core.stored import read_file

LONGEST = 300
"""The most characters of one line of text."""

LONGEST_CELL = 200
"""The most characters of a cell, of a sentence and of a heading in a notebook."""

MOST_ROWS = 40
"""The most rows of a table, and the most sentences, in a notebook."""


MOST_ITEMS = 12
"""The most items of a collection in a cell."""

MOST_PICTURES = 12
LARGEST_PICTURE = 2**23
"""The most pictures that a notebook displays at once, and the most bytes of one."""

LARGEST_PAGE = 2**23
"""The most characters of a page that a notebook displays: it is stored in the notebook."""


class _Brief(reprlib.Repr):
    """The few words of a value: of tensors and arrays their type and shape, of collections the first few."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple, self.maxset = 3, 6, 6, 6, 6
        self.maxstring, self.maxother, self.maxlong = 60, 80, 40

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, Tensor) or (hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, type)):
            return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
        if isinstance(x, float):
            return f"{x:.4g}"
        if isinstance(x, type):
            return x.__name__
        return super().repr1(x, level)


def in_few_words(value: Any) -> str:
    """A value in a few words.

    >>> import torch
    >>> in_few_words(torch.zeros(5, 2)), in_few_words(list(range(100)))
    ('float32 (5, 2)', '[0, 1, 2, 3, 4, 5, ...]')
    """
    return _Brief().repr(value)


class Shown:
    """An object that shows its facts: on one line as text, as a small table in a notebook.

    Dataclasses among its subclasses keep this ``__repr__`` in place of their own, which would print every number.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]  # of its own, so that no dataclass makes one

    def _facts(self) -> Mapping[str, Any]:
        """What there is to say of it, by name; of a dataclass, the fields that are filled in."""
        found = {part.name: getattr(self, part.name) for part in fields(self) if part.repr}  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if not _is_empty(value)}

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={in_few_words(value)}" for name, value in self._facts().items())
        return shortened(f"{type(self).__name__}({told})", LONGEST)

    def _repr_html_(self) -> str:
        return notebook(type(self).__name__, table([], self._facts().items()))


class Pictures(list[Path]):
    """Picture files, which a notebook displays below their paths."""

    def __repr__(self) -> str:
        return shortened(f"Pictures({', '.join(str(path) for path in self)})", LONGEST)

    def _repr_html_(self) -> str:
        shown = (
            f"<figure><figcaption>{_text(str(path))}</figcaption>{image(read_file(path, LARGEST_PICTURE))}</figure>"
            for path in self[:MOST_PICTURES]
        )
        others = sentences([str(path) for path in self[MOST_PICTURES:]])
        return notebook(f"{len(self)} picture{'' if len(self) == 1 else 's'}", *shown, others)


def image(content: bytes) -> str:
    """A PNG image inside of HTML, no wider than there is room."""
    return f'<img style="max-width: 100%" src="data:image/png;base64,{base64.b64encode(content).decode()}">'


def framed(page: str, title: str, height: int = 640) -> str:
    """A whole page inside of HTML, in a frame of its own: its scripts run, and reach nothing of the page around it."""
    if len(page) > LARGEST_PAGE:
        return (
            f"<p>{_text(f'The page has {len(page) / 2**20:.0f} MB, too much to be shown here: save it as a file.')}</p>"
        )
    style = f"width: 100%; height: {height}px; border: 1px solid rgb(128 128 128 / 0.4)"
    return (
        f'<iframe sandbox="allow-scripts" title="{_text(title)}" style="{style}" srcdoc="{html.escape(page)}"></iframe>'
    )


def notebook(title: str, *parts: str) -> str:
    """The HTML that a notebook displays: a heading and the parts below it, which are HTML already."""
    return f"<div><strong>{_text(title)}</strong>{''.join(parts)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose rows begin with their names; texts are shown as they are, other values in a few words.

    >>> table([], [["<test>", 0.25]])
    '<table><tbody><tr><th>&lt;test&gt;</th><td>0.25</td></tr></tbody></table>'
    """
    listed = [*rows]
    if not listed:
        return ""
    top = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join(
        f"<tr><th>{_text(name)}</th>{''.join(f'<td>{_text(value)}</td>' for value in values)}</tr>"
        for name, *values in listed[:MOST_ROWS]
    )
    heading = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f"<table>{heading}<tbody>{body}</tbody></table>{_left_out(len(listed))}"


def sentences(said: Sequence[str]) -> str:
    """A list of sentences.

    >>> sentences(["1 < 2"])
    '<ul><li>1 &lt; 2</li></ul>'
    """
    if not said:
        return ""
    return f"<ul>{''.join(f'<li>{_text(sentence)}</li>' for sentence in said[:MOST_ROWS])}</ul>{_left_out(len(said))}"


def scores_table(scores: Mapping[str, Mapping[str, float]]) -> str:
    """A table of metrics by split.

    >>> "<th>test</th><td>0.5</td>" in scores_table({"test": {"nll": 0.5}})
    True
    """
    splits = {split: found for split, found in scores.items() if found}
    names = list(dict.fromkeys(name for found in splits.values() for name in found))
    return table(["", *names], [[split, *(found.get(name, "") for name in names)] for split, found in splits.items()])


def _left_out(count: int) -> str:
    return f"<p>and {count - MOST_ROWS:,} more</p>" if count > MOST_ROWS else ""


def _text(value: Any) -> str:
    return html.escape(shortened(_plain(value), LONGEST_CELL))


def _plain(value: Any) -> str:
    """A value as people write it: texts without quotes, names before their values."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(part)}" for name, part in islice(value.items(), MOST_ITEMS))
    if isinstance(value, list | tuple) and value and all(isinstance(part, str) for part in value):
        rest = f" and {len(value) - MOST_ITEMS:,} more" if len(value) > MOST_ITEMS else ""
        return ", ".join(value[:MOST_ITEMS]) + rest
    return in_few_words(value)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | bytes | Mapping | list | tuple | set) and not value)
