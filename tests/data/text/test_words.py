"""A text word by word holds the words of the text, counted on the training split alone."""

import re
from collections import Counter
from dataclasses import replace

import pytest
import torch

from deepcanon.core import DataError, Sequences, UsageError
from deepcanon.data import Dataset, load_data
from deepcanon.data.sets.python_text import corpus
from deepcanon.data.text.windows import stream, windows
from deepcanon.data.text.words import UNKNOWN, in_words, words_of

PARTS = ("train", "valid", "test")


def decoded(data: Dataset[Sequences], part: str) -> list[str]:
    return [data.vocabulary[number] for number in stream(data.split(part)).tolist()]


def characters(text: str) -> Dataset[Sequences]:
    tokens = tuple(sorted(set(text)))
    codes = torch.tensor([tokens.index(token) for token in text])
    return Dataset(
        name="story", kind="text", train=windows(codes, 8), sizes={"vocab": len(tokens), "length": 8}, vocabulary=tokens
    )


def test_the_words_are_those_of_the_characters() -> None:
    plain, data = load_data("text"), load_data("text:words")
    assert data.name == "text:words"
    assert data.preprocessing["form"] == "words"
    for part in PARTS:
        text = "".join(plain.vocabulary[number] for number in stream(plain.split(part)).tolist()).lower()
        expected = re.findall(r"[a-z]+(?:'[a-z]+)*", text)
        said = decoded(data, part)
        assert len(said) == len(expected)
        assert all(word in (true, UNKNOWN) for word, true in zip(said, expected, strict=True))


@pytest.mark.parametrize(("form", "least"), [("words", 3), ("words=1", 1), ("words=10", 10)])
def test_words_count_that_are_frequent_in_the_training_part(form: str, least: int) -> None:
    data = load_data(f"text:{form}")
    text = corpus()
    counts = Counter(words_of(text[: round(0.8 * len(text))]))
    assert set(data.vocabulary) == {UNKNOWN} | {word for word, count in counts.items() if count >= least}
    assert data.sizes["vocab"] == len(data.vocabulary) == len(set(data.vocabulary))
    seen = [counts[word] for word in data.vocabulary[1:]]
    assert seen == sorted(seen, reverse=True)
    assert int(data.train.x.max()) < data.sizes["vocab"]


def test_a_part_that_is_not_there_stays_away() -> None:
    data = in_words(characters("to be or not to be"), "words=2")
    assert decoded(data, "train") == ["to", "be", UNKNOWN, UNKNOWN, "to", "be"]
    assert data.valid is data.test is None


def test_what_is_no_form_of_words_is_refused() -> None:
    with pytest.raises(UsageError, match=r"written text:words or text:words=5; got text:words=often"):
        load_data("text:words=often")
    with pytest.raises(UsageError, match=r"digits gives images, but words are a form of text; leave out ':words'"):
        load_data("digits:words")
    with pytest.raises(UsageError, match="made of characters, which text:words does not give"):
        load_data("text:words:words")
    with pytest.raises(DataError, match="no word occurs 9 times in the training split of story; write :words=1"):
        in_words(characters("to be or not to be"), "words=9")


def test_letters_of_any_script_make_words() -> None:
    assert words_of("Café naïve, «Ёлка» 3rd L\u2019été __init__") == [
        "café",
        "naïve",
        "ёлка",
        "rd",
        "l\u2019été",
        "init",
    ]


def test_the_tokens_need_not_be_sorted() -> None:
    plain = characters("to be or not to be")
    order = torch.randperm(len(plain.vocabulary), generator=torch.Generator().manual_seed(0))
    tokens = tuple(plain.vocabulary[place] for place in order.tolist())
    train = replace(plain.train, x=order.argsort()[plain.train.x])
    data = in_words(replace(plain, vocabulary=tokens, train=train), "words=1")
    assert decoded(data, "train") == words_of("to be or not to be")
