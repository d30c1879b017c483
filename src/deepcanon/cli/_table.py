"""Layout of tables and paragraphs for a terminal of some width: words are never broken."""

from __future__ import annotations

from collections.abc import Sequence

GAP = 3
"""Blanks between two columns."""

COMFORTABLE = 24
"""A column of text that would get less than this stands below its row."""

INDENT = 4
"""How far what stands below a row is indented."""


def lay_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = (), width: int | None = None
) -> list[str]:
    """The lines of a table; the columns named in ``numbers`` stand to the right.

    Columns of text are wrapped as the ``width`` asks. Where even that leaves too little room, the widest columns
    stand below their rows: numbers in one line, texts in one each.

    >>> print("\\n".join(lay_out(["a", "b"], [("x", "1"), ("long", "10")], numbers=["b"])))
     a       b
     ─────────
     x       1
     long   10
    """
    across, below = list(range(len(columns))), list[int]()
    room = _widths(columns, rows, across, width)
    while room is None and len(across) > 1:
        widest = max(across[1:], key=lambda place: _natural(columns, rows, place))
        across.remove(widest)
        below = sorted([*below, widest])
        room = _widths(columns, rows, across, width)
    if room is None:
        room = [max(_longest_word(columns, rows, 0), (width or 1) - 1)]
    right = [columns[place] in numbers for place in across]
    lines = [*_row([columns[place] for place in across], room, right), " " + "─" * (sum(room) + GAP * (len(room) - 1))]
    for row in rows:
        lines += _row([row[place] for place in across], room, right)
        named = [(columns[place], " ".join(row[place].splitlines())) for place in below if row[place]]
        short = "; ".join(f"{name}: {text}" for name, text in named if name in numbers)
        long = [f"{name}: {text}" for name, text in named if name not in numbers]
        for text in filter(None, [short, *long]):
            lines += paragraph(" " * INDENT + text, width).split("\n")
    return lines


def paragraph(text: str, width: int | None, hanging: int = 0) -> str:
    """Each line of a text broken between words, where a width is given.

    What follows is indented as its line is, and ``hanging`` further.

    >>> print(paragraph("  one two three", 10, hanging=2))
      one two
        three
    """
    if width is None:
        return text
    lines = []
    for line in text.split("\n"):
        margin = line[: len(line) - len(line.lstrip(" "))]
        first, *others = _wrapped(line[len(margin) :], width - len(margin), width - len(margin) - hanging)
        lines += [margin + first, *(margin + " " * hanging + other for other in others)]
    return "\n".join(lines)


def _row(cells: Sequence[str], room: Sequence[int], right: Sequence[bool]) -> list[str]:
    """The lines of one row, whose cells may need several."""
    parts = [_in_room(cell, width) for cell, width in zip(cells, room, strict=True)]
    lines = []
    for number in range(max(map(len, parts))):
        texts = [part[number] if number < len(part) else "" for part in parts]
        padded = [
            " " * (width - _length(text)) + text if to_right else text + " " * (width - _length(text))
            for text, width, to_right in zip(texts, room, right, strict=True)
        ]
        lines.append((" " + (" " * GAP).join(padded)).rstrip())
    return lines


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], places: Sequence[int], width: int | None
) -> list[int] | None:
    """The widths of these columns side by side; None if one would be too narrow."""
    natural = [_natural(columns, rows, place) for place in places]
    if width is None:
        return natural
    room = width - 1 - GAP * (len(places) - 1)
    least = [
        max(_longest_word(columns, rows, place), min(COMFORTABLE, wanted))
        for place, wanted in zip(places, natural, strict=True)
    ]
    if sum(least) > room:
        return None
    found = least
    for most in range(COMFORTABLE, max(natural) + 1):
        wider = [max(low, min(wanted, most)) for low, wanted in zip(least, natural, strict=True)]
        if sum(wider) > room:
            break
        found = wider
    return found


def _natural(columns: Sequence[str], rows: Sequence[Sequence[str]], place: int) -> int:
    return max(_length(line) for cell in (columns[place], *(row[place] for row in rows)) for line in cell.split("\n"))


def _longest_word(columns: Sequence[str], rows: Sequence[Sequence[str]], place: int) -> int:
    return max(
        (_length(word) for cell in (columns[place], *(row[place] for row in rows)) for word in cell.split()), default=0
    )


def _in_room(cell: str, width: int) -> list[str]:
    return [part for line in cell.split("\n") for part in _wrapped(line, width, width)]


def _wrapped(line: str, first: int, then: int) -> list[str]:
    """A line broken between words into one of this width and others of that; a word that is wider stays whole."""
    lines: list[str] = []
    current = ""
    for word in line.split(" "):
        longer = f"{current} {word}" if current else word
        if current.strip() and _length(longer) > (then if lines else first):
            lines.append(current.rstrip())
            current = word
        else:
            current = longer
    return [*lines, current.rstrip()]


def _length(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
