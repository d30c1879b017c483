"""Byte-pair encoding gives every text back, and encodes it as Hugging Face's tokenizers do by the same merges."""

import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from deepcanon.core import CheckpointError, DataError, UsageError
from deepcanon.data.sets.python_text import corpus
from deepcanon.data.text.bpe import BPE, byte_signs, joined, words

ODD = [
    "", " ", "\n\n  \t x", "I'll say it's 'tis, we've 10^2 = 100²½ Ⅷ!", "naïve café — “quotes”…", "日本語 とテキスト",
    "emoji 👩‍👩‍👧 and 🇩🇪", "e\u0301 combining", "\x00\x1c\x1d\x85\xa0\u2003control", "tab\tsep \r\n line",
    "a  b   c    ",
    "الْعَرَبِيَّة", "हिन्दी", "x_y__z --- ### \\n", "'S 'sT don'T can\u2019t",
]  # fmt: skip


@pytest.fixture(scope="module")
def bpe() -> BPE:
    return BPE.train(corpus()[:60000], size=420)


def test_every_text_comes_back(bpe: BPE) -> None:
    every = "".join(chr(code) for code in range(0, sys.maxunicode + 1, 97) if not 0xD800 <= code < 0xE000)
    for text in [*ODD, every, corpus()[-5000:]]:
        assert bpe.decode(bpe.encode(text)) == text
        assert "".join(words(text)) == text
    assert len(bpe.tokens) == len(bpe.vocabulary) == 420


def test_hugging_face_encodes_alike_by_the_same_files(bpe: BPE, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="Hugging Face's tokenizers are not installed")
    bpe.save(tmp_path)
    model = tokenizers.models.BPE.from_file(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = tokenizers.decoders.ByteLevel()
    for text in [*ODD, corpus()[60000:90000]]:
        assert theirs.encode(text).ids == bpe.encode(text), text
    assert theirs.decode(bpe.encode(ODD[4])) == ODD[4]


def test_training_joins_the_most_frequent_pair_each_time() -> None:
    text = corpus()[:3000]
    bpe = BPE.train(text, size=300)
    parts = [[byte_signs()[byte] for byte in word.encode()] for word in words(text)]
    for merge in bpe.merges:
        counts = Counter(pair for word in parts for pair in pairwise(word))
        assert counts[merge] == max(counts.values())
        assert merge == min(pair for pair, count in counts.items() if count == counts[merge])
        parts = [joined(word, merge) for word in parts]
    assert [part for word in parts for part in word] == [bpe.tokens[code] for code in bpe.encode(text)]


def test_training_ends_when_nothing_repeats() -> None:
    assert BPE.train("ab cd", size=300).merges == ()
    assert BPE.train("abab", size=300).merges == (("a", "b"),)
    with pytest.raises(UsageError, match="at least the 256 bytes"):
        BPE.train("abab", size=255)


def test_files_are_read_as_gpt2_writes_them(tmp_path: Path) -> None:
    bpe = BPE.train("the cat the hat the", size=258)
    bpe.save(tmp_path)
    assert (tmp_path / "merges.txt").read_text(encoding="utf-8") == "#version: 0.2\nh e\nt he\n"
    again = BPE.load(tmp_path)
    assert (again.tokens, again.merges) == (bpe.tokens, bpe.merges)
    (tmp_path / "merges.txt").write_text("a b c\n")
    with pytest.raises(DataError, match="two tokens"):
        BPE.load(tmp_path)
    (tmp_path / "merges.txt").write_text("q z\n")
    with pytest.raises(DataError, match="lacks 'qz'"):
        BPE.load(tmp_path)
    for content, sentence in (
        (b"[1, 2]", r"vocab\.json is not what deepcanon writes"),
        (b'{"a": "0"}', r"vocab\.json is not what .*: a: "),
        (b"\x80\x04cos\nsystem", r"vocab\.json is damaged: it is not JSON"),
    ):
        (tmp_path / "vocab.json").write_bytes(content)
        with pytest.raises(CheckpointError, match=sentence):
            BPE.load(tmp_path)
    with pytest.raises(DataError, match="stands for no byte"):
        BPE((*byte_signs(), "\u20ac"), ())
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 2}')
    with pytest.raises(DataError, match="numbered from 0"):
        BPE.load(tmp_path)


def test_bytes_are_written_as_in_gpt2() -> None:
    assert len(set(byte_signs())) == 256
    assert [byte_signs()[byte] for byte in (0, 9, 10, 32, 127, 160, 173, 255)] == list("ĀĉĊĠġłŃÿ")
