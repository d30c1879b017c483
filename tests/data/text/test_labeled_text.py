"""Texts with labels from files: known by a written rule, tokenized, and learned from the whole way as a user would."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import deepcanon as dc
from deepcanon.cli.app import app
from deepcanon.core import DataError, LabeledSequences, Sequences, UsageError
from deepcanon.data import load_rows
from deepcanon.data.preprocessing import contradiction
from deepcanon.data.tables.csv_file import read
from deepcanon.data.tables.prepared_table import all_labels_of
from deepcanon.data.tables.table_columns import column_from_json
from deepcanon.data.text.tokenizers import tokenizer_of

GOOD, BAD = ("lovely", "superb", "fine"), ("awful", "dull", "poor")
FILLING = [
    "the",
    "film",
    "was",
    "a",
    "long",
    "story",
    "about",
    "two",
    "people",
    "in",
    "town",
    "and",
    "it",
    "had",
    "music",
]


def reviews(path: Path, count: int = 120) -> Path:
    """Reviews whose class, and number of stars, one word decides."""
    draw = random.Random(0)
    with path.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["review", "label", "stars"])
        for _ in range(count):
            good = draw.random() < 0.5
            words = draw.choices(FILLING, k=draw.randint(4, 9))
            words.insert(draw.randrange(len(words)), draw.choice(GOOD if good else BAD))
            writer.writerow([" ".join(words) + ", really!", "yes" if good else "no", 8.5 if good else 2.25])
    return path


def call(*words: Any) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(*words: Any) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr


@pytest.mark.parametrize("form", ["", ":words=1", ":characters", ":bytes", ":bpe=300", ":length=5"])
def test_every_row_keeps_its_text_and_its_label(tmp_path: Path, form: str) -> None:
    path = reviews(tmp_path / "reviews.csv")
    data = dc.load_data(f"{path}:text{form}", target="label", text="review")
    assert (data.kind, data.labels, data.sizes["vocab"]) == ("sequences", ("no", "yes"), len(data.vocabulary))
    tokenizer: Any = tokenizer_of((), data.preprocessing)
    with path.open(newline="") as lines:
        written = {(row["review"], row["label"]) for row in csv.DictReader(lines)}
    length = 5 if form == ":length=5" else 256
    wanted = {(tokenizer.decode(tokenizer.encode(text)[:length]), label) for text, label in written}
    parts = [data.split(name) for name in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [84, 12, 24]
    found = set()
    for part in parts:
        assert isinstance(part, LabeledSequences)
        for row, end, y in zip(part.x, part.lengths, part.y, strict=True):
            found.add((tokenizer.decode(row[:end].tolist()), data.labels[y]))
    assert found == wanted
    if form in (":bytes", ":bpe=300"):  # of which nothing is lost
        assert found == written
    assert bool(data.remarks) == (form == ":length=5")
    again = dc.load_data(data.name, preprocessing=data.preprocessing, **data.reading)
    assert again.fingerprint() == data.fingerprint()


def test_the_tokens_are_learned_from_the_training_split_alone(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    rows = [f"only word{'abcdefghijklmnopqrst'[row]} stands here,{row % 2}" for row in range(20)]
    path.write_text("text,y\n" + "\n".join(rows) + "\n")
    data = dc.load_data(f"{path}:text:words=1", target="y")
    assert sum(word.startswith("word") for word in data.vocabulary) == len(data.train) == 14
    test: Any = data.split("test")
    unknown = data.vocabulary.index("<unk>")
    assert (test.x == unknown).any(1).all()


def test_a_file_is_one_of_texts_by_a_written_rule(tmp_path: Path) -> None:
    path = reviews(tmp_path / "reviews.csv")
    assert dc.load_data(path, target="stars", text="review").kind == "sequences"  # whatever other columns there are
    table = path.read_text().splitlines()
    two = tmp_path / "two.csv"
    two.write_text("\n".join(line.rpartition(",")[0] for line in table))
    assert dc.load_data(two, target="label").kind == "sequences"  # one column besides the target, of texts
    colors = tmp_path / "colors.csv"
    colors.write_text("color,y\n" + "dark red,1\nblue,0\n" * 10)
    assert dc.load_data(colors, target="y").kind == "table"
    tabs = tmp_path / "two.tsv"
    tabs.write_text("text\ty\n" + 'a "quoted word\t1\nand another\t0\n' * 10)
    assert dc.load_data(f"{tabs}:text:bytes", target="y").sizes["classes"] == 2


def test_numbers_are_standardized_and_predicted_in_their_own_units(tmp_path: Path) -> None:
    path = reviews(tmp_path / "reviews.csv")
    data = dc.load_data(path, target="stars", text="review")
    train: Any = data.train
    assert data.sizes["targets"] == 1
    torch.testing.assert_close(train.y.mean(), torch.tensor(0.0), atol=1e-5, rtol=0)
    torch.testing.assert_close(train.y.std(correction=0), torch.tensor(1.0))


def test_new_texts_never_end_a_prediction(tmp_path: Path) -> None:
    for form in ("words", "characters", "bytes", "bpe=300"):
        path = reviews(tmp_path / "reviews.csv")
        data = dc.load_data(f"{path}:text:{form}", target="label", text="review")
        new = tmp_path / "new.csv"
        new.write_text('review\nlovely ☃ zxq\n"!!! 123"\nnone\n""\n' + "long " * 300 + "\n")
        rows: Any = load_rows(str(new), dict(data.preprocessing))
        assert isinstance(rows, Sequences)
        assert len(rows) == 5
        assert rows.lengths.min() >= 1
        assert rows.lengths.max() == 256
        tokenizer: Any = tokenizer_of((), data.preprocessing)
        if form == "bytes":  # a text is what is written, not a missing value
            assert tokenizer.decode(rows.x[2, : rows.lengths[2]].tolist()) == "none"


@pytest.mark.slow
def test_the_whole_way_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reviews(Path("reviews.csv"))
    reading = ("--text", "review", "--target", "label")
    small = ("--units", 8, "--epochs", 6)
    said = call("train", "lstm_predictor", "--data", "reviews.csv:text:length=8", *reading, *small, "--out", "run")
    assert "texts are cut to their first 8 tokens; say :length=16 for more" in said
    assert json.loads(call("evaluate", "run", "--json"))["test"]["accuracy"] > 0.7
    assert json.loads(call("evaluate", "run", "--json", "--data", "reviews.csv"))["test"]["accuracy"] > 0.7
    Path("new.csv").write_text("id,review\n1,a lovely film\n2,Dull music!\n")
    call("predict", "run", "--data", "new.csv", "--out", "out.csv")
    with open("out.csv", newline="") as lines:
        first, second = csv.DictReader(lines)
    assert (first["prediction"], second["prediction"]) == ("yes", "no")
    assert float(first["probability_yes"]) == pytest.approx(1 - float(first["probability_no"]), abs=1e-6)
    saved = dc.Run("run").info["data"]
    assert saved["preprocessing"]["tokenizer"]["kind"] == "special"
    call("compare", "lstm_predictor:units=4", "lstm_predictor:units=8", "--data", "reviews.csv", *reading, "--out", "c",
         "--budget", 2)  # fmt: skip
    assert (Path("c") / "report.html").is_file()
    call("microscope", "lstm_predictor", "--data", "reviews.csv", *reading, "--out", "m.html")


@pytest.mark.parametrize(
    ("content", "target", "words"),
    [
        ("", "y", "is empty"),
        ("text,y\n", "y", "names its columns but has no rows"),
        ("text,y\na,1\n", "y", "is 1 in every row"),
        ("text,y\na,1\nb,2\n", "y", "at least 5 are needed"),
        ("text,y\na,1\nb\n", "y", "line 3 has 1 values, but there are 2 columns"),
        ("text,text\na,1\nb,2\n", "y", "two columns named 'text'"),
        ("text,y\na,1\nb,2\n", "z", "has no column 'z'"),
        ("text,y\n" + "a,1\nb,\n" * 5, "y", "line 3, column 'y': the target is missing"),
        ("p,q,y\n" + "a,b,1\nc,d,2\n" * 5, "y", "say which holds the texts"),
        ("text,y\n" + "a,1\nb,2\n" * 5, None, "say which column is the target"),
        ("text,y\n" + "!,1\n?,2\n" * 5, "y", "no word occurs 3 times"),
    ],
)  # fmt: skip
def test_bad_files_are_named_with_what_to_do(tmp_path: Path, content: str, target: str | None, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    reading = () if target is None else ("--target", target)
    assert words in refused("train", "lstm_predictor", "--data", f"{path}:text", *reading, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_wrong_bytes_and_forms_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(b"text,y\n\xff\xfe,1\n")
    with pytest.raises(DataError, match="is not UTF-8"):
        dc.load_data(f"{path}:text", target="y")
    with pytest.raises(UsageError, match="more tokens than the 256 bytes"):
        dc.load_data(f"{path}:text:bpe=10", target="y")
    with pytest.raises(UsageError, match="one kind of tokens; got bytes, words"):
        dc.load_data(f"{path}:text:bytes:words", target="y")
    with pytest.raises(UsageError, match="is a form of a CSV file with a column of texts"):
        dc.load_data("digits:text")
    with pytest.raises(DataError, match="is not that of texts with labels"):
        load_rows(f"{path}:text", {"form": "text"})


def test_a_made_up_preprocessing_contradicts_itself(tmp_path: Path) -> None:
    data = dc.load_data(reviews(tmp_path / "reviews.csv"), target="label", text="review")
    told: dict[str, Any] = {
        "kind": data.kind, "sizes": dict(data.sizes), "labels": list(data.labels),
        "vocabulary": list(data.vocabulary), "preprocessing": dict(data.preprocessing),
    }  # fmt: skip
    assert contradiction(told) == ""
    for changes, words in (
        ({"texts": []}, "there are 0 columns of texts"),
        ({"target": None}, "texts with labels have no target"),
        ({"tokenizer": {"kind": "bytes"}}, "the tokenizer of texts lacks the special tokens padding"),
    ):
        assert contradiction({**told, "preprocessing": {**data.preprocessing, **changes}}) == words
    pairs = {**told, "kind": "pairs", "preprocessing": {**data.preprocessing, "texts": []}}
    assert contradiction(pairs) == "the target tokenizer of texts lacks the special tokens begin, end, padding"


def test_labels_that_must_be_there_are_asked_for_in_a_sentence(tmp_path: Path) -> None:
    """With a saved target, too, whose column may be missing or have gaps."""
    target = column_from_json(dc.load_data(reviews(tmp_path / "a.csv"), target="label").preprocessing["target"])
    (tmp_path / "b.csv").write_text("label,stars\nyes,1\n,2\n")
    (tmp_path / "c.csv").write_text("stars\n1\n2\n")
    for name in ("b.csv", "c.csv"):
        with pytest.raises(DataError, match="has not the target 'label' in every row"):
            all_labels_of(read(tmp_path / name), target)
