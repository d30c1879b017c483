"""Tokenizers give text back and come back from JSON."""

import json

import pytest

from deepcanon.core import UsageError
from deepcanon.data.text.bpe import BPE
from deepcanon.data.text.tokenizers import Bytes, Characters, Tokenizer, tokenizer_of
from deepcanon.data.text.words import Words

TEXT = "to be, or not to be: naïve 日本 👍"


@pytest.mark.parametrize(
    "tokenizer", [Characters(sorted(set(TEXT))), Bytes(), BPE.train(TEXT * 3, 270)], ids=lambda one: type(one).__name__
)
def test_text_and_tokenizer_come_back(tokenizer: Tokenizer) -> None:
    codes = tokenizer.encode(TEXT)
    assert tokenizer.decode(codes) == TEXT
    assert max(codes) < len(tokenizer.vocabulary) == len(set(tokenizer.vocabulary))
    again = tokenizer_of((), {"tokenizer": json.loads(json.dumps(tokenizer.to_json()))})
    assert type(again) is type(tokenizer)
    assert again.encode(TEXT) == codes
    assert again.vocabulary == tokenizer.vocabulary


def test_words_come_back_as_far_as_they_are_known() -> None:
    words = Words(("<unk>", "to", "be", "not"))
    codes = words.encode("To be, or not to be!")
    assert codes == [1, 2, 0, 3, 1, 2]
    assert words.decode(codes) == "to be <unk> not to be"
    again = tokenizer_of((), {"tokenizer": json.loads(json.dumps(words.to_json()))})
    assert (again.vocabulary, again.encode("not to")) == (words.vocabulary, [3, 1])


def test_bytes_are_those_of_utf8_and_what_is_none_is_marked() -> None:
    assert Bytes().encode(TEXT) == list(TEXT.encode("utf-8"))
    assert Bytes().decode([97, 0xFF, 98]) == "a\ufffdb"


def test_a_character_beyond_the_alphabet_is_refused() -> None:
    with pytest.raises(UsageError, match="'d' is not in the vocabulary; its tokens are 'abc'"):
        Characters("abc").encode("add")
