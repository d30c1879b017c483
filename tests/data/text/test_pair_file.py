"""Pairs of texts from files: with and without names, in any tokens, translated the whole way as a user would."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest

import deepcanon as dc
from deepcanon.core import DataError, SequencePairs, Sequences, UsageError
from deepcanon.data import load_rows
from deepcanon.data.text.tokenizers import tokenizer_of
from tests.data.text.test_labeled_text import call, refused

NUMBERS = dict(zip(["one", "two", "three", "four"], ["uno", "dos", "tres", "cuatro"], strict=True))


def pairs(count: int = 60) -> list[tuple[str, str]]:
    draw = random.Random(0)
    sources = [draw.choices(list(NUMBERS), k=draw.randint(1, 3)) for _ in range(count)]
    return [(" ".join(words), " ".join(NUMBERS[word] for word in words)) for words in sources]


def tabs(path: Path, count: int = 60) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs(count)))
    return path


def decoded(data: Any, part: SequencePairs) -> set[tuple[str, str]]:
    source, target = (
        tokenizer_of((), data.preprocessing),
        tokenizer_of((), {"tokenizer": data.preprocessing["target_tokenizer"]}),
    )
    rows = zip(part.x, part.lengths, part.y, part.y_lengths, strict=True)
    return {(source.decode(x[:n].tolist()), target.decode(y[:m].tolist())) for x, n, y, m in rows}


@pytest.mark.parametrize("form", ["", ":words=1", ":characters", ":bytes", ":bpe=280"])
def test_the_pairs_are_those_of_the_file(tmp_path: Path, form: str) -> None:
    data = dc.load_data(f"{tabs(tmp_path / 'numbers.tsv')}{form}")
    assert data.kind == "pairs"
    assert set().union(*(decoded(data, data.split(name)) for name in ("train", "valid", "test"))) == set(pairs())
    train: Any = data.train
    begin, end = data.sizes["begin_token"], data.sizes["end_token"]
    assert (train.y[:, 0] == begin).all()
    assert (train.y.gather(1, train.y_lengths.unsqueeze(1) - 1) == end).all()
    again = dc.load_data(data.name, preprocessing=data.preprocessing)
    assert again.fingerprint() == data.fingerprint()


def test_columns_have_names_in_csv_and_where_a_target_is_named(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    with path.open("w", newline="") as lines:
        csv.writer(lines).writerows([("en", "es"), *pairs()])
    forward, back = dc.load_data(f"{path}:pairs:bytes"), dc.load_data(f"{path}:pairs:bytes", target="en")
    assert (forward.target, back.target) == ("es", "en")
    assert {pair[::-1] for pair in decoded(back, back.train)} == decoded(forward, forward.train)
    named = tmp_path / "named.tsv"
    named.write_text("id\ten\tes\n" + "".join(f"{row}\t{a}\t{b}\n" for row, (a, b) in enumerate(pairs())))
    chosen = dc.load_data(f"{named}:pairs:bytes", text="en", target="es")
    assert decoded(chosen, chosen.train) == decoded(forward, forward.train)
    with pytest.raises(DataError, match=r"two columns, source and target, and .* has 3"):
        dc.load_data(f"{named}:pairs", target="es")
    with pytest.raises(UsageError, match="both are 'es'"):
        dc.load_data(f"{named}:pairs", text="es", target="es")


def test_words_that_elsewhere_are_missing_values_are_words(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("en,de\n" + "none,keine\nNA,?\n" * 5)
    data = dc.load_data(f"{path}:pairs:bytes")
    assert decoded(data, data.train) == {("none", "keine"), ("NA", "?")}


def test_new_sources_need_no_targets(tmp_path: Path) -> None:
    data = dc.load_data(f"{tabs(tmp_path / 'numbers.tsv')}:words=1")
    new = tmp_path / "new.tsv"
    new.write_text("one ☃ two\n\nthree\n")
    rows: Any = load_rows(str(new), dict(data.preprocessing))
    assert type(rows) is Sequences
    assert tokenizer_of((), data.preprocessing).decode(rows.x[0, : rows.lengths[0]].tolist()) == "one two"
    new.write_text("one\tuno\n")
    assert type(load_rows(str(new), dict(data.preprocessing))) is SequencePairs
    assert type(load_rows(str(new), dict(data.preprocessing), labeled=False)) is Sequences


@pytest.mark.slow
def test_the_whole_way_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tabs(Path("numbers.tsv"), 300)
    small = ("--units", 24, "--epochs", 25, "--lr", 0.02)
    call("train", "seq2seq_attention", "--data", "numbers.tsv:words=1", *small, "--out", "run")
    assert call("translate", "run", "two one").strip() == "dos uno"
    assert json.loads(call("evaluate", "run", "--json"))["test"]["exact_match"] > 0.8
    Path("new.tsv").write_text("three\nfour two\n")
    call("predict", "run", "--data", "new.tsv", "--out", "out.csv")
    with open("out.csv", newline="") as lines:
        assert [row["prediction"] for row in csv.DictReader(lines)] == ["tres", "cuatro dos"]
    assert call("generate", "run", "--given", "one", "--steps", 3).strip()
    call("compare", "seq2seq_attention:units=4", "seq2seq_attention:units=8", "--data", "numbers.tsv:words=1",
         "--out", "c", "--budget", 1)  # fmt: skip
    call("microscope", "seq2seq_attention", "--data", "numbers.tsv", "--out", "m.html")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"one\tuno\n", "at least 5 are needed"),
        (b"one\tuno\ntwo\n", "line 2 has 1 values, but the first line has 2"),
        (b"one\nuno\n", "pairs of texts are two columns"),
        (b"one\tuno\ntwo\t\n" * 5, "line 2: the target is missing"),
        (b"one\tuno\n\xff\t\n", "is not UTF-8: line 2 has the byte 0xff"),
    ],
)
def test_bad_files_are_named_with_what_to_do(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.tsv"
    path.write_bytes(content)
    assert words in refused("train", "seq2seq_attention", "--data", path, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
