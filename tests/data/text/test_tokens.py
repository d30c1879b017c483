"""Forms of a text: the same text in other tokens and windows, and a tokenizer that is kept."""

import pytest

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.data.sets.python_text import corpus
from deepcanon.data.text.tokenizers import tokenizer_of
from deepcanon.data.text.windows import stream


@pytest.mark.slow
@pytest.mark.parametrize(("form", "vocab", "length"), [
    ("bytes", 256, 64), ("bpe=300", 300, 64), ("length=20", 96, 20), ("bpe=280:length=100", 280, 100),
])  # fmt: skip
def test_a_form_holds_the_same_text(form: str, vocab: int, length: int) -> None:
    data = load_data(f"text:{form}")
    assert dict(data.sizes) == {"vocab": vocab, "length": length}
    assert data.train.x.shape[1:] == data.shape == (length + 1,)
    assert len(data.vocabulary) == vocab
    assert data.name == f"text:{form}"
    tokenizer = tokenizer_of((), data.preprocessing)
    texts = [tokenizer.decode(stream(data.split(part)).tolist()) for part in ("train", "valid", "test")]
    assert "".join(texts) == corpus()


@pytest.mark.slow
def test_byte_pairs_are_learned_from_the_training_part_and_shorten_the_text() -> None:
    plain, pairs = load_data("text"), load_data("text:bpe=300")
    assert len(pairs.train) < 0.8 * len(plain.train)


@pytest.mark.parametrize("name", ["text:bpe", "text:bpe=x", "text:bytes=3", "text:length=0", "text:length"])
def test_what_is_no_form_is_refused(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"a text has the forms text:characters, text:bytes, text:bpe=512, .*; got text:"
    ):
        load_data(name)


def test_only_texts_have_tokens_and_byte_pairs_begin_beyond_the_bytes() -> None:
    with pytest.raises(UsageError, match="digits gives images, but bytes is a form of text"):
        load_data("digits:bytes")
    with pytest.raises(UsageError, match="more tokens than the 256 bytes"):
        load_data("text:bpe=256")
