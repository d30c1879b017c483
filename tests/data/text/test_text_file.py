"""Texts of one's own: files and folders in any form, trained on and evaluated by the tokenizer that was saved."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import deepcanon as dc
from deepcanon.cli.app import app
from deepcanon.core import DataError, UsageError
from deepcanon.data import load_rows
from deepcanon.data.text.tokenizers import tokenizer_of
from deepcanon.data.text.windows import stream

TEXT = "".join(f"{number} times {number} is {number * number}, is it not?\n" for number in range(60))


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    return path


def decoded(data: dc.Dataset[dc.Sequences]) -> str:
    """The text of all splits."""
    tokenizer = tokenizer_of(data.vocabulary, data.preprocessing)
    return "".join(
        tokenizer.decode(stream(part).tolist()) for part in (data.train, data.split("valid"), data.split("test"))
    )


@pytest.mark.parametrize("form", ["", ":characters", ":bytes", ":bpe=300", ":length=16", ":stream"])
def test_the_splits_are_the_text_in_its_order(book: Path, form: str) -> None:
    data = dc.load_data(f"{book}{form}")
    assert decoded(data) == TEXT
    assert data.kind == "text"
    assert data.sizes["vocab"] == len(data.vocabulary)
    assert data.name == f"{book}{form}"
    again = dc.load_data(f"{book}:{data.preprocessing['form']}" if form else book, preprocessing=data.preprocessing)
    assert again.fingerprint() == data.fingerprint()


def test_a_folder_is_its_texts_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b" * 100)
    (tmp_path / "a.TXT").write_text("\ufeff" + "a\r\n" * 50)  # as some editors save it
    (tmp_path / "notes.md").write_text("not one of them")
    assert decoded(dc.load_data(tmp_path)) == "a\n" * 50 + "\n\n" + "b" * 100


@pytest.mark.parametrize("form", ["", ":bytes", ":bpe=300", ":words=1", ":lines"])
def test_new_text_has_the_tokens_and_windows_of_the_training(book: Path, tmp_path: Path, form: str) -> None:
    data = dc.load_data(f"{book}{form}")
    new = tmp_path / "new.txt"
    new.write_text("3 times 3 is 9, is it not?\n1 is 1\n")
    rows = load_rows(str(new), {"shape": list(data.shape), **data.preprocessing})
    assert isinstance(rows, dc.Sequences)
    assert tuple(rows.x.shape[1:]) == data.shape
    tokenizer = tokenizer_of(data.vocabulary, data.preprocessing)
    if form == ":lines":
        texts = [tokenizer.decode(x[:n].tolist()) for x, n in zip(rows.x, rows.lengths.tolist(), strict=True)]
        assert texts == ["3 times 3 is 9, is it not?", "1 is 1"]
    else:
        wanted = "times is is it not is" if form == ":words=1" else new.read_text()
        assert tokenizer.decode(stream(rows).tolist()) == wanted


def test_what_is_not_a_text_is_said_with_its_line(tmp_path: Path, book: Path) -> None:
    broken, short, strange, pipe = (tmp_path / name for name in ("broken.txt", "short.txt", "strange.txt", "pipe.txt"))
    broken.write_bytes(b"a line\nand \xff one\n")
    short.write_text("too short")
    strange.write_text("1 is 1\n2 is \u2603\n")
    os.mkfifo(pipe)
    for path, message in (
        (broken, "broken.txt is not UTF-8: line 2 has the byte 0xff; save it as UTF-8"),
        (short, "short.txt has 9 characters; at least 100 are needed"),
        (pipe, "pipe.txt is a pipe or a device"),
        (tmp_path / "gone.txt", "there is no file .*gone.txt"),
    ):
        with pytest.raises(DataError, match=message):
            dc.load_data(path)
    learned = dc.load_data(book).preprocessing
    with pytest.raises(
        DataError, match=r"line 2 of .*strange.txt has '\u2603', which does not occur .* FILE.txt:bytes"
    ):
        load_rows(str(strange), {"shape": [65], **learned})
    lines = dc.load_data(f"{book}:lines")
    strange.write_text("1 is 1\n" + "is " * 40 + "\n")
    with pytest.raises(DataError, match=r"line 2 of .*strange.txt has 122 tokens; the model has learned from"):
        load_rows(str(strange), {"shape": list(lines.shape), **lines.preprocessing})
    with pytest.raises(DataError, match="is not that of a text: it has columns"):
        load_rows(str(book), {"columns": ["a"]})
    with pytest.raises(UsageError, match=r"the tokens of .* are others already; leave out ':characters'"):
        dc.load_data(f"{book}:bytes:characters")
    with pytest.raises(UsageError, match="gives text, without a target to choose; leave out the target 'x'"):
        dc.load_data(book, target="x")


@pytest.mark.parametrize("form", ["", ":bpe=280:length=16"])
def test_a_text_goes_all_the_way_by_the_command_line(
    book: Path, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> str:
        result = CliRunner().invoke(app, [*words])
        assert result.exit_code == 0, result.stderr
        return result.stdout

    size = ["--layers", "1", "--embedding", "16"]
    call("train", "gpt", "--data", f"book.txt{form}", "--steps", "4", "--out", "run", *size)
    new = tmp_path / "new.txt"
    new.write_text(TEXT[:300])
    on_own, on_new = (json.loads(call("evaluate", "run", "--json", *words)) for words in ((), ("--data", "new.txt")))
    assert on_own["test"]["nll"] > 0
    assert on_new["test"]["nll"] != on_own["test"]["nll"]
    assert call("generate", "run", "--prompt", "3 times", "--steps", "5").startswith("3 times")
    run = dc.Run("run")
    assert run.data.fingerprint() == run.info["data"]["fingerprint"]
    book.write_text(TEXT.replace("is it", "it is"))  # changed since: it counts as new, read by the saved tokenizer
    changed = json.loads(call("evaluate", "run", "--json"))
    assert set(changed["test"]) == set(on_new["test"])


@pytest.mark.slow
def test_texts_are_compared_by_the_same_command(book: Path, tmp_path: Path) -> None:
    out = tmp_path / "compared"
    small = ["gpt:layers=1,embedding=8", "lstm:units=8"]
    result = CliRunner().invoke(app, ["compare", *small, "--data", str(book), "--out", str(out), "--budget", "2"])
    assert result.exit_code == 0, result.stderr
    compared = json.loads((out / "compare.json").read_text())
    assert {"gpt", "lstm"} <= set(re.findall(r"[a-z]+", json.dumps(compared)))
    assert (out / "report.html").is_file()
