"""Tokenisers give text back and come back from JSON."""

import json

import pytest

from deepcanon.core import UsageError
from deepcanon.data.bpe import BPE
from deepcanon.data.tokenisers import Bytes, Characters, Tokeniser, tokeniser_of
from deepcanon.data.words import Words

TEXT = "to be, or not to be: naïve 日本 👍"


@pytest.mark.parametrize(
    "tokeniser", [Characters(sorted(set(TEXT))), Bytes(), BPE.train(TEXT * 3, 270)], ids=lambda one: type(one).__name__
)
def test_text_and_tokeniser_come_back(tokeniser: Tokeniser) -> None:
    codes = tokeniser.encode(TEXT)
    assert tokeniser.decode(codes) == TEXT
    assert max(codes) < len(tokeniser.symbols) == len(set(tokeniser.symbols))
    again = tokeniser_of((), {"tokeniser": json.loads(json.dumps(tokeniser.to_json()))})
    assert type(again) is type(tokeniser)
    assert again.encode(TEXT) == codes
    assert again.symbols == tokeniser.symbols


def test_words_come_back_as_far_as_they_are_known() -> None:
    words = Words(("<unk>", "to", "be", "not"))
    codes = words.encode("To be, or not to be!")
    assert codes == [1, 2, 0, 3, 1, 2]
    assert words.decode(codes) == "to be <unk> not to be"
    again = tokeniser_of((), {"tokeniser": json.loads(json.dumps(words.to_json()))})
    assert (again.symbols, again.encode("not to")) == (words.symbols, [3, 1])


def test_bytes_are_those_of_utf8_and_what_is_none_is_marked() -> None:
    assert Bytes().encode(TEXT) == list(TEXT.encode("utf-8"))
    assert Bytes().decode([97, 0xFF, 98]) == "a\ufffdb"


def test_a_character_beyond_the_alphabet_is_refused() -> None:
    with pytest.raises(UsageError, match="does not know 'd'; its symbols are 'abc'"):
        Characters("abc").encode("add")
