"""Lines of a text are whole sequences, from the begin to the end token."""

from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError, UsageError
from deepcanon.data.sets.python_text import corpus
from deepcanon.data.suits import suits
from deepcanon.data.text.tokenizers import tokenizer_of


@pytest.mark.parametrize("name", ["text:lines", "text:bytes:lines"])
def test_every_line_stands_between_its_begin_and_end(name: str) -> None:
    data = dc.load_data(name)
    tokenizer = tokenizer_of(data.vocabulary, data.preprocessing)
    begin, end = data.sizes["begin_token"], data.sizes["end_token"]
    rows = [row[:length].tolist() for row, length in zip(data.train.x, data.train.lengths, strict=True)]
    assert {row[0] for row in rows} == {begin}
    assert {row[-1] for row in rows} == {end}
    assert not any({begin, end} & set(row[1:-1]) for row in rows)
    lines = [line for line in corpus().split("\n") if line]
    assert [tokenizer.decode(row) for row in rows[:500]] == lines[:500]
    assert data.sizes["vocab"] == len(data.vocabulary)
    assert suits(dc.models.GPT, data)


@pytest.mark.parametrize("name", ["text:lines:bytes", "text:stream:lines", "text:lines:lines", "text:lines:words"])
def test_a_text_is_cut_last(name: str) -> None:
    with pytest.raises(UsageError, match="a text is cut into lines or a stream last"):
        dc.load_data(name)


def test_words_keep_no_line_ends() -> None:
    with pytest.raises(DataError, match="its tokens keep no line ends"):
        dc.load_data("text:words:lines")


@pytest.mark.slow
def test_generation_ends_at_the_end_token(tmp_path: Path) -> None:
    run = dc.Run.train("lstm:units=8,layers=1", "text:lines", out=tmp_path / "run", steps=2, quiet=True)
    end = run.info["data"]["sizes"]["end_token"]
    head: Any = run.model.head
    with torch.no_grad():  # only the end token follows "a"
        head.bias.fill_(-100.0).index_fill_(0, torch.tensor(end), 100.0)
    assert run.generate("a", 50) == "a"
    assert run.generate(steps=50) == ""
