"""Texts from files: one ``.txt`` file, or all that a folder holds, in the order of their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad

from deepcanon.core import DataError, Sequences
from deepcanon.core.hints import listed
from deepcanon.core.memory import need
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.split import HELD_OUT
from deepcanon.data.text.special import WithSpecialTokens, padded
from deepcanon.data.text.tokenizers import Characters, tokenizer_of
from deepcanon.data.text.windows import windows

SUFFIX = ".txt"
LENGTH = 64
"""The number of tokens that are predicted in a window, unless the form ``length=`` says another."""
SHORTEST = 100
"""A text of fewer characters has no splits to speak of."""
BYTES = 24
"""So many bytes of memory a byte of text takes at most: as characters, as their code points and as tokens."""


def is_text(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    """Whether a path is that of a text file, or of a folder with text files in it."""
    return path.suffix.lower() == SUFFIX if not path.is_dir() else bool(_files_in(path))


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[Sequences]:
    """A text character by character: its beginning is the training split, its end the test split.

    The vocabulary is that of the whole text, in the order of the code points, or of the ``preprocessing`` of an earlier
    load.
    """
    text = read(path)
    if len(text) < SHORTEST:
        raise DataError(
            f"{path} has {len(text)} characters; at least {SHORTEST} are needed to train, validate and test"
        )
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    alphabet = _alphabet(preprocessing)
    known = np.unique(points) if alphabet is None else np.array(sorted(map(ord, alphabet)), dtype=np.uint32)
    strange = np.setdiff1d(points, known)
    if len(strange):
        raise _unknown(path, text, chr(int(strange[0])))
    codes = torch.from_numpy(np.searchsorted(known, points))
    vocabulary = tuple(chr(point) for point in known.tolist())
    valid, test = HELD_OUT
    first, second = (round((1 - held_out) * len(codes)) for held_out in (valid + test, test))
    return Dataset(
        name=str(path),
        kind="text",
        train=windows(codes[:first], LENGTH),
        valid=windows(codes[first:second], LENGTH),
        test=windows(codes[second:], LENGTH),
        sizes={"vocab": len(vocabulary), "length": LENGTH},
        shape=(LENGTH + 1,),
        vocabulary=vocabulary,
        source=str(path.resolve()),
        preprocessing={"tokenizer": Characters(vocabulary).to_json()},
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Sequences:
    """A whole text in the tokens and windows of one that a model has learned from, whatever its form."""
    if "tokenizer" not in preprocessing:
        raise DataError(f"this preprocessing is not that of a text: it has {listed(preprocessing)}")
    text, tokenizer, width = read(path), tokenizer_of((), preprocessing), preprocessing["shape"][0]
    plain = tokenizer.tokenizer if isinstance(tokenizer, WithSpecialTokens) else tokenizer
    if isinstance(plain, Characters) and (strange := sorted(set(text) - {*plain.vocabulary, "\n"})):
        raise _unknown(path, text, strange[0])
    if isinstance(tokenizer, WithSpecialTokens):
        return _lines(path, text, tokenizer, width)
    return windows(torch.tensor(tokenizer.encode(text), dtype=torch.long), width - 1)


def _lines(path: Path, text: str, tokenizer: WithSpecialTokens, width: int) -> Sequences:
    """The lines of a text that are not empty, which are at most as long as those that a model has learned from."""
    rows = {number: tokenizer.row(line) for number, line in enumerate(text.split("\n"), 1) if line}
    for number, row in rows.items():
        if len(row) > width:
            raise DataError(
                f"line {number} of {path} has {len(row)} tokens; the model has learned from {width} at most"
            )
    if not rows:
        raise DataError(f"{path} has no lines but empty ones")
    x, lengths = padded(list(rows.values()), tokenizer.special.padding)
    return Sequences(pad(x, (0, width - x.shape[1]), value=tokenizer.special.padding or 0), lengths)


def read(path: Path) -> str:
    """The text of a file, or of all text files of a folder with an empty line between any two."""
    files = _files_in(path) if path.is_dir() else [path]
    need(BYTES * sum(file.stat().st_size for file in files if file.is_file()), f"the text {path}", "take a part of it")
    return "\n\n".join(map(_content, files))


def _content(file: Path) -> str:
    if not file.is_file():
        raise DataError(
            f"{file} is a pipe or a device, not a file; write its content to a file first"
            if file.exists()
            else f"there is no file {file}"
        )
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(
            f"{file} is not UTF-8: line {line} has the byte 0x{content[error.start]:02x}; save it as UTF-8"
        ) from None
    return text.replace("\r\n", "\n")


def _files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() == SUFFIX)


def _alphabet(preprocessing: Mapping[str, Any] | None) -> str | None:
    """The characters of an earlier load; None where there was none, or its tokens were no characters."""
    saved = (preprocessing or {}).get("tokenizer", {})
    return "".join(saved["vocabulary"]) if saved.get("kind") == "characters" else None


def _unknown(path: Path, text: str, character: str) -> DataError:
    line = text[: text.index(character)].count("\n") + 1
    return DataError(
        f"line {line} of {path} has {character!r}, which does not occur in the text that the model has learned from; "
        f"train on the bytes of the text, FILE{SUFFIX}:bytes, which know every character"
    )


TEXT = FileKind("text", is_text, load, apply)
