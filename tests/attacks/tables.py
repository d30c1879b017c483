"""Tables of every wrong kind: CSV files with odd bytes, long cells, many columns and classes, extreme numbers."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.attacks._frame import Trial, fault
from tests.attacks._installed import run_installed

CELLS = (
    "", "NA", "nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "1e999", "0x10", "1_000", "1,5", "1;5", "'", '"', '""',
    "=1+1", "-", "+", ".", "٣", "½", "日本", "\ufeff", "\u202e", "\x00", "\r", "\n", " ", "\t", "true", "2020-01-01",
    "[red]",
    "x" * 130_000, "9" * 400, "$\\frac", "<script>", "a\nb",
)  # fmt: skip
"""What one cell of an otherwise healthy table may hold."""


class Attack:
    """A table in which one thing or more is wrong, trained on by a model that reads tables."""

    FAST, SLOW = 1, 6

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def trial(self, chance: random.Random, folder: Path) -> Trial:
        what, content = chance.choice(WAYS)(chance)
        path = folder / "table.csv"
        path.write_bytes(content)
        if chance.random() < 0.05:
            path.unlink()
            os.mkfifo(path) if chance.random() < 0.5 else path.mkdir()
            what = "a pipe or a folder in place of a file"
        model = chance.choice(["mlp", "softmax_regression", "linear_regression", "gaussian", "autoencoder", "vae"])
        words = ["train", model, "--data", str(path), "--steps", "2", "--out", "run"]
        words += ["--target", "y"] if chance.random() < 0.8 else []
        return Trial(f"{what}: deepcanon {' '.join(words)}", fault(run_installed(words, folder)))


def _healthy(chance: random.Random, rows: int = 40, columns: int = 3) -> list[list[str]]:
    names = [f"c{column}" for column in range(columns)]
    lines = [[f"{chance.gauss(0, 1):.3f}" for _ in names] + ["uvw"[row % 3]] for row in range(rows)]
    return [[*names, "y"], *lines]


def _csv(lines: list[list[str]], end: str = "\n", between: str = ",") -> bytes:
    return (end.join(between.join(line) for line in lines) + end).encode("utf-8", "surrogatepass")


def _odd_cells(chance: random.Random) -> tuple[str, bytes]:
    lines = _healthy(chance)
    chosen = [chance.choice(CELLS) for _ in range(chance.choice([1, 1, 3, 20]))]
    for cell in chosen:
        line = chance.choice(lines)
        quoted = f'"{cell}"' if chance.random() < 0.5 else cell
        line[chance.randrange(len(line))] = quoted
    return f"cells {[cell[:20] for cell in chosen][:4]}", _csv(lines)


def _odd_bytes(chance: random.Random) -> tuple[str, bytes]:
    content = bytearray(_csv(_healthy(chance)))
    for _ in range(chance.choice([1, 5, 50])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    return "flipped bytes", bytes(content)


def _odd_form(chance: random.Random) -> tuple[str, bytes]:
    lines = _healthy(chance)
    forms = {
        "nothing": b"", "a header": _csv(lines[:1]), "one row": _csv(lines[:2]), "semicolons": _csv(lines, between=";"),
        "old line ends": _csv(lines, end="\r"), "UTF-16": _csv(lines).decode().encode("utf-16"), "zeros": b"\0" * 9999,
        "one line": b"x" * 1_000_000, "commas": b"," * 100_000, "cut": _csv(lines)[: chance.randrange(2000)],
        "quotes": b'"' * 99_999, "equal names": _csv([["a", "a", "y", "y"], *lines[1:]]),
        "ragged": _csv([line[: chance.randrange(1, 5)] for line in lines]), "blank lines": _csv(lines).replace(b"\n",
    b"\n\n"),
        "a constant": _csv([lines[0], *[["1", "1", "1", "u"]] * 30]),
    }  # fmt: skip
    name = chance.choice(sorted(forms))
    return name, forms[name]


def _large(chance: random.Random) -> tuple[str, bytes]:
    columns, classes, length = chance.choice(
        [(3000, 3, 1), (3, 300, 1), (3, 3, 40_000), (3, 150, 900), (3, 3, 131_000)]
    )
    lines = _healthy(chance, rows=max(60, 3 * classes), columns=columns)
    for row, line in enumerate(lines[1:]):
        line[-1] = f"{row % classes}" + "z" * length
    return f"{columns} columns, {classes} classes with names of {length} letters", _csv(lines)


LARGE = ((3000, 3, 1), (3, 300, 1), (3, 3, 40_000), (3, 150, 900), (3, 3, 131_000))
WAYS = (_odd_cells, _odd_cells, _odd_bytes, _odd_form, _odd_form, _large)
