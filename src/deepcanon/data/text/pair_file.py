"""Pairs of texts from files, ``FILE.csv:pairs`` or ``FILE.tsv``: a source in one column, its target in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepcanon.core import AnyBatch, DataError, SequencePairs, Sequences, UsageError
from deepcanon.core.hints import listed
from deepcanon.core.reading import Reading
from deepcanon.data.dataset import Dataset
from deepcanon.data.file_kind import FileKind
from deepcanon.data.split import cut, fixed_random, three_counts
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

MARK = "pairs"
"""The form of a file that holds pairs of texts."""

USUAL = "bpe=2000"
"""The tokens unless a form says others: nothing is lost by them, and no text has an unknown one."""


def load(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None
) -> Dataset[SequencePairs]:
    """The pairs of a file in tokens, split by a fixed seed; each side has a tokenizer of its own.

    A file with names has its target in the column ``target``, else in the second of two; lines with a tab between
    source and target have no names, unless a target is named.
    """
    tokens = [form for form in forms if form != MARK]
    check_tokens(str(path), tokens)
    file = read_texts(path, named=bool(reading))
    names = _columns(file, reading)
    sources, targets = _sides(file, names)
    for row, pair in enumerate(zip(sources, targets, strict=True)):
        if not all(pair):
            raise DataError(f"{file.place(row)}: the {'target' if pair[0] else 'source'} is missing; take the row out")
    train, *held = cut(fixed_random(0).permutation(len(sources)), three_counts(len(sources), str(path)))
    length = length_of(tokens)
    if preprocessing is not None:
        first: Any = tokenizer_of((), preprocessing)
        second: Any = tokenizer_of((), {"tokenizer": preprocessing["target_tokenizer"]})
    else:
        known = train.tolist()
        first = learn_tokenizer([sources[row] for row in known], str(path), tokens, USUAL, "padding")
        second = learn_tokenizer([targets[row] for row in known], str(path), tokens, USUAL, "padding", "begin", "end")
    x, lengths, cut_sources = in_rows(sources, first, length)
    y, y_lengths, cut_targets = in_rows(targets, second, length)
    parts = [SequencePairs(x[rows], lengths[rows], y[rows], y_lengths[rows]) for rows in (train, *held)]
    form = ":".join([MARK, *tokens])
    return Dataset(
        name=f"{path}:{form}",
        kind="pairs",
        train=parts[0],
        valid=parts[1],
        test=parts[2],
        sizes={
            "vocab": len(first.vocabulary),
            "target_vocab": len(second.vocabulary),
            "begin_token": second.special.sizes["begin_token"],
            "end_token": second.special.sizes["end_token"],
        },
        shape=tuple(x.shape[1:]),
        vocabulary=first.vocabulary,
        target_vocabulary=second.vocabulary,
        source=str(path.resolve()),
        target=names[1] if names else None,
        reading={"text": names[0]} if names else {},
        preprocessing={
            "form": form,
            "texts": list(names),
            "tokenizer": first.to_json(),
            "target_tokenizer": second.to_json(),
        },
        remarks=cut_in_words(cut_sources, len(x), length, "sources")
        + cut_in_words(cut_targets, len(x), length, "targets"),
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> AnyBatch:
    """All sources of a file in the tokens of those that a model has learned from, with targets if all have one."""
    if "target_tokenizer" not in preprocessing:
        raise DataError(f"this preprocessing is not that of pairs of texts: it has {listed(preprocessing)}")
    names = preprocessing["texts"]
    file = read_texts(path, named=bool(names))
    length = length_of(preprocessing["form"].split(":"))
    tokenizer: Any = tokenizer_of((), preprocessing)
    second: Any = tokenizer_of((), {"tokenizer": preprocessing["target_tokenizer"]})
    sources, targets = _sides(file, names)
    x, lengths, _ = in_rows(sources, tokenizer, length)
    if not labeled or not targets or not all(targets):
        return Sequences(x, lengths)
    return SequencePairs(x, lengths, *in_rows(targets, second, length)[:2])


def _columns(file: TextFile, reading: Reading) -> tuple[str, ...]:
    """The names of the columns of sources and of targets; none where there are none."""
    width, target = len(file.rows[0]), reading.get("target")
    if width < 2 or (width > 2 and (target is None or "text" not in reading)):
        raise DataError(
            f"pairs of texts are two columns, source and target, and {file.path} has {width}; of more, name the source "
            "by the option text and the target by the option target"
        )
    if not file.names:
        return ()
    target = target or next(name for name in reversed(file.names) if name != reading.get("text"))
    source = reading.get("text") or next(name for name in file.names if name != target)
    if source == target:
        raise UsageError(f"the source and the target of pairs are two columns of {file.path}; both are {source!r}")
    return source, target


def _sides(file: TextFile, names: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The sources and the targets, by the names of their columns or else by their places; perhaps no targets."""
    if names:
        return file.column(names[0]), file.column(names[1]) if names[1] in file.names else ()
    first, *others = zip(*file.rows, strict=True)
    return first, others[0] if others else ()


def _recognizes(path: Path, forms: tuple[str, ...], reading: Reading) -> bool:
    """By its form, or as lines with tabs of which no target is named."""
    return holds_texts(path) and (MARK in forms or (path.suffix.lower() == TSV and not reading))


PAIRS = FileKind(
    "pairs",
    _recognizes,
    load,
    apply,
    takes=frozenset({"target", "text"}),
    forms={MARK: "a file with two columns of texts", **TOKENS},
)
