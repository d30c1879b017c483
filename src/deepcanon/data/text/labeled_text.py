"""Texts with labels from files, ``FILE.csv:text``: a column of texts, and a target that is predicted from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from deepcanon.core import AnyBatch, DataError, LabeledSequences, SentencePairs, Sequences, UsageError
from deepcanon.core.hints import listed
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.tables.csv_cells import number
from deepcanon.data.tables.csv_rows import column_names, written_rows
from deepcanon.data.tables.prepared_table import all_labels_of, fit_target, labels_of
from deepcanon.data.tables.table_columns import Category, column_as_json, column_from_json
from deepcanon.data.text.special import WithSpecialTokens
from deepcanon.data.text.text_columns import (
    TOKENS,
    TSV,
    TextFile,
    check_tokens,
    cut_in_words,
    holds_texts,
    in_rows,
    learn_tokenizer,
    length_of,
    read_texts,
)
from deepcanon.data.text.tokenizers import tokenizer_of

MARK = "text"
"""The form of a file that holds texts with labels."""

WORDS = 4
"""A column is one of texts if its cells have so many words on average."""

FRAME = 2
"""The tokens around a text for a BERT: the class token and the separator."""

PEEK = 100
"""The rows by which that is judged."""


def load(path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None) -> Dataset[Any]:
    """The texts of a file in tokens with their labels, split by a fixed seed and stratified by class.

    Tokens are words, unless a form says others, and are learned from the training split. The target gives classes or
    numbers by the rules of a table. With the ``preprocessing`` of a trained model they are its tokens, and its ``size``
    is the width of a row; where it has a class token, a text is a row of one sentence.
    """
    tokens = [form for form in forms if form != MARK]
    check_tokens(str(path), tokens)
    target = reading.get("target")
    if target is None:
        raise UsageError(f"{path} holds texts of which something is predicted; say which column is the target")
    file = read_texts(path)
    column = _text_column(file, target, reading.get("text"))
    texts, labels = file.column(column), file.only(target)
    fitted, parts = fit_target(labels, target)
    saved = preprocessing or {}
    if saved.get("target") is not None:
        fitted = column_from_json(saved["target"])
    if "tokenizer" in saved:
        tokenizer: Any = tokenizer_of((), saved)
    else:
        learned = [texts[row] for row in parts[0].tolist()]
        tokenizer = learn_tokenizer(learned, str(path), tokens, "words", "padding")
    most = saved["size"] - FRAME if "size" in saved else length_of(tokens)
    x, lengths, cut = in_rows(texts, tokenizer, most)
    y = all_labels_of(labels, fitted)
    classes = fitted.values if isinstance(fitted, Category) else ()
    sizes = {"vocab": len(tokenizer.vocabulary), "length": saved.get("size", x.shape[1])}
    if tokenizer.special.class_ is not None:
        if not classes:
            raise UsageError(f"the model learns classes of texts; the column {target!r} of {path} gives numbers")
        sizes |= {name: id for name, id in tokenizer.special.sizes.items() if name != "padding_token"}
    train, valid, test = (_batch(x[rows], y[rows], lengths[rows], tokenizer, sizes["length"]) for rows in parts)
    form = ":".join([MARK, *tokens])
    return Dataset(
        name=f"{path}:{form}",
        kind="sequences",
        train=train,
        valid=valid,
        test=test,
        sizes=sizes | ({"classes": len(classes)} if classes else {"targets": 1}),
        shape=tuple(train.x.shape[1:]),
        labels=classes,
        vocabulary=tokenizer.vocabulary,
        source=str(path.resolve()),
        target=target,
        reading={"text": column},
        preprocessing={
            "form": form,
            "texts": [column],
            "columns": [],
            "target": column_as_json(fitted),
            "tokenizer": tokenizer.to_json(),
            **({"size": saved["size"]} if "size" in saved else {}),
        },
        remarks=cut_in_words(cut, len(texts), most) if "size" not in saved else _too_long(cut, len(texts), most),
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> AnyBatch:
    """All texts of a file in the tokens of those that a model has learned from, with labels if all rows have one."""
    if "texts" not in preprocessing:
        raise DataError(f"this preprocessing is not that of texts with labels: it has {listed(preprocessing)}")
    file, (column,) = read_texts(path), preprocessing["texts"]
    tokenizer: Any = tokenizer_of((), preprocessing)
    if not isinstance(tokenizer, WithSpecialTokens):
        raise DataError("this preprocessing is not that of texts with labels: its tokenizer has no special tokens")
    size = preprocessing.get("size")
    most = length_of(preprocessing["form"].split(":")) if size is None else size - FRAME
    x, lengths, _ = in_rows(file.column(column), tokenizer, most)
    target = column_from_json(preprocessing["target"])
    y = labels_of(file.only(target.name), target) if labeled and target.name in file.names else None
    return Sequences(x, lengths) if y is None else _batch(x, y, lengths, tokenizer, size or x.shape[1])


def _batch(
    x: Tensor, y: Tensor, lengths: Tensor, tokenizer: WithSpecialTokens, width: int
) -> LabeledSequences | SentencePairs:
    """Labeled rows; between class and separator tokens each is one sentence, as a BERT reads it."""
    if tokenizer.special.class_ is None:
        return LabeledSequences(x, y, lengths)
    x = pad(x, (0, width - x.shape[1]), value=tokenizer.special.padding or 0)
    return SentencePairs(x, lengths, torch.zeros_like(x), y)


def _too_long(cut: int, count: int, most: int) -> tuple[str, ...]:
    return (f"{cut:,} of {count:,} texts are cut to the first {most} tokens, which the model has room for.",) * bool(
        cut
    )


def _text_column(file: TextFile, target: str, asked: str | None) -> str:
    """The column of texts: the one that is asked for, the only one besides the target, or the only one of texts."""
    if asked is not None:
        file.column(asked)
        if asked == target:
            raise UsageError(f"the column {asked!r} of {file.path} is the target; the texts are in another column")
        return asked
    file.column(target)
    others = [name for name in file.names if name != target]
    cells = zip(*file.rows[:PEEK], strict=True)
    texts = [name for name, some in zip(file.names, cells, strict=True) if name in others and are_texts(some)]
    if len(others) == 1 or len(texts) == 1:
        return (texts or others)[0]
    raise DataError(
        f"{file.path} has the columns {listed(others)} besides the target; say which holds the texts, as the option "
        f"text {others[0] if others else 'COLUMN'!r}"
    )


def are_texts(cells: tuple[str, ...]) -> bool:
    """Whether cells hold texts: several words on average, and not the same ones again and again.

    >>> are_texts(("it was a good film", "what a waste of time")), are_texts(("dark red", "green"))
    (True, False)
    """
    words = sum(len(cell.split()) for cell in cells)
    return words >= WORDS * len(cells) and 2 * len(set(cells)) > len(cells) and not all(map(_is_number, cells))


def _is_number(cell: str) -> bool:
    return number(cell) is not None


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    """By its form, by an option that names the texts, or if its one column besides the target holds texts."""
    target = reading.get("target")
    if not holds_texts(path) or "pairs" in forms:
        return False
    if MARK in forms or "text" in reading or (path.suffix.lower() == TSV and target is not None):
        return True
    if target is None or not path.is_file():
        return False
    try:
        names = column_names(path)
        if len(names) != 2 or target not in names:
            return False
        csv = path.suffix.lower() == ".csv"
        rows = [row for _, row in written_rows(path, PEEK)[1]] if csv else read_texts(path).rows[:PEEK]
    except DataError:  # which is said when it is read
        return False
    return bool(rows) and are_texts(tuple(row[1 - names.index(target)] for row in rows))


LABELED_TEXT = FileKind(
    "sequences",
    _recognizes,
    load,
    apply,
    takes=frozenset({"target", "text"}),
    forms={MARK: "a CSV file with a column of texts", **TOKENS},
)
