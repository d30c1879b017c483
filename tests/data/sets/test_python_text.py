"""The text is the docstrings, every token of it predicted once."""

import argparse
import inspect
import weakref
from pathlib import Path

import pytest
import torch

from deepcanon.core import DataError, Sequences
from deepcanon.data import load_data
from deepcanon.data.sets.python_text import LENGTH, TOKENS, corpus, windows


def decode(part: Sequences) -> str:
    """The text of which the windows were cut: the first token, then what each window predicts."""
    codes = [part.x[0, :1], *(row[1:length] for row, length in zip(part.x, part.lengths, strict=True))]
    return "".join(TOKENS[code] for code in torch.cat(codes).tolist())


def test_parts_decode_to_the_docstrings() -> None:
    data = load_data("text")
    parts = [decode(data.split(name)) for name in ("train", "valid", "test")]
    whole = "".join(parts)
    assert whole == corpus()
    for documented in (argparse.ArgumentParser, weakref.WeakValueDictionary, weakref.finalize):
        assert (inspect.getdoc(documented) or "?") in whole
    assert [round(len(part) / len(whole), 3) for part in parts] == [0.8, 0.1, 0.1]


def test_the_first_docstring_is_the_first_modules() -> None:
    assert corpus().startswith(inspect.cleandoc(argparse.__doc__ or "?") + "\n\n")


@pytest.mark.parametrize("tokens", [2, LENGTH, LENGTH + 1, LENGTH + 2, 2 * LENGTH + 1, 200])
def test_windows_overlap_by_one_token(tokens: int) -> None:
    story = "".join(TOKENS[number * 7 % len(TOKENS)] for number in range(tokens))
    part = windows(story)
    assert decode(part) == story
    assert (part.lengths >= 2).all()
    assert int((part.lengths - 1).sum()) == tokens - 1
    assert torch.equal(part.x[1:, 0], part.x[:-1, -1])


def test_nothing_can_be_predicted_of_one_token() -> None:
    with pytest.raises(DataError, match="at least 2 tokens"):
        windows("a")


def test_tokens_are_codes_below_vocab() -> None:
    data = load_data("text")
    assert len(set(data.vocabulary)) == data.sizes["vocab"] == len(TOKENS)
    assert data.train.x.max() < data.sizes["vocab"]
    assert data.train.x.shape[1] == data.sizes["length"] + 1


@pytest.mark.parametrize("module", ["no_such_module", "sys"])
def test_a_module_without_source_is_named(module: str) -> None:
    with pytest.raises(DataError, match=f"without the source of {module!r}"):
        corpus(("argparse", module))


def test_modules_are_read_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = '"""First."""\nclass A:\n  """Second."""\n  async def f(self): "Third: \u00a9."\nraise SystemExit\n'
    (tmp_path / "fails_when_run.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert corpus(("fails_when_run",)) == "First.\n\nSecond.\n\nThird: ."
