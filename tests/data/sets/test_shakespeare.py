"""Tiny Shakespeare as nanoGPT cuts it, on a small file written here and on the real one where it is."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from deepcanon.core import DataError, Sequences
from deepcanon.data import load_data
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.sets.shakespeare import SHAKESPEARE, load
from deepcanon.data.text.windows import stream

PLAY = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n" * 5


def text_of(part: Sequences) -> str:
    return "".join(SHAKESPEARE.vocabulary[code] for code in stream(part).tolist())


def test_the_last_tenth_validates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text(PLAY)
    file = RemoteFile("input.txt", len(PLAY), hashlib.sha256(PLAY.encode()).hexdigest())
    data = load(replace(SHAKESPEARE, remote=Remote("tinyshakespeare", (), (file,))))
    assert text_of(data.train) == PLAY[: len(PLAY) * 9 // 10]
    assert text_of(data.split("valid")) == PLAY[len(PLAY) * 9 // 10 :]
    assert data.test is None
    with pytest.raises(DataError, match="is damaged"):
        load(SHAKESPEARE)


@pytest.mark.skipif(not SHAKESPEARE.remote.here(), reason="input.txt is not on this machine; set DEEPCANON_DATA")
def test_the_real_text_has_the_sizes_that_nanogpt_prints() -> None:
    data = load_data("shakespeare")
    train, valid = text_of(data.train), text_of(data.split("valid"))
    assert (len(train), len(valid), data.sizes["vocab"]) == (1_003_854, 111_540, 65)
    assert "".join(sorted(set(train))) == "".join(data.vocabulary)
    assert train.startswith("First Citizen:\nBefore we proceed any further, hear me speak.")
    assert (len(data.train), len(data.split("valid")), 0) == SHAKESPEARE.counts
