"""Prompts are read by the tokenizer of the run's data, and text is shown by it."""

from typing import Any

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.data.text.bpe import BPE
from deepcanon.runs.text import decode, encode, encode_stop

PAIRS: dict[str, Any] = {
    "vocabulary": ["not", "looked", "at"],
    "preprocessing": {"tokenizer": BPE.train("the the the", 258).to_json()},
}
LETTERS: dict[str, Any] = {"vocabulary": ["a", "b", "c"], "preprocessing": {}}


def test_text_comes_back_by_the_tokenizer_of_the_data() -> None:
    codes = encode("the é", PAIRS)
    assert codes.shape == (1, 4)
    assert decode(codes, PAIRS) == "the é"
    assert torch.equal(encode("cab", LETTERS), torch.tensor([[2, 0, 1]]))


def test_generation_stops_at_one_token() -> None:
    assert encode_stop(None, LETTERS) is None
    assert encode_stop("b", LETTERS) == 1
    assert decode(torch.tensor([encode_stop("the", PAIRS)]), PAIRS) == "the"
    with pytest.raises(UsageError, match="'ab' is 2 of them"):
        encode_stop("ab", LETTERS)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="are not text"):
        encode("a", {"vocabulary": [], "preprocessing": {}})
    with pytest.raises(UsageError, match="at least one token"):
        encode("", PAIRS)
