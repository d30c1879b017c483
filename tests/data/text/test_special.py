"""Special tokens stand first in a vocabulary, and no text encodes to them."""

import json

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.data.text.bpe import BPE
from deepcanon.data.text.special import SIGNS, SpecialTokens, WithSpecialTokens, padded
from deepcanon.data.text.tokenizers import Bytes, Characters, Tokenizer, tokenizer_of

TEXT = "<pad> is 5 letters, <begin> <end>"


@pytest.mark.parametrize(
    "plain", [Characters(sorted(set(TEXT))), Bytes(), BPE.train(TEXT * 3, 290)], ids=lambda one: type(one).__name__
)
def test_text_that_looks_like_a_special_token_is_not_one(plain: Tokenizer) -> None:
    tokenizer = WithSpecialTokens(plain, SpecialTokens.first(*SIGNS))
    codes = tokenizer.encode(TEXT)
    assert min(codes) >= len(SIGNS)
    assert max(codes) < len(tokenizer.vocabulary)
    assert tokenizer.decode([0, *codes, 2]) == TEXT
    assert tokenizer.row(TEXT) == [1, *codes, 2]
    again = tokenizer_of((), {"tokenizer": json.loads(json.dumps(tokenizer.to_json()))})
    assert again.encode(TEXT) == codes
    assert again.vocabulary == tokenizer.vocabulary


def test_special_tokens_are_found_in_a_vocabulary() -> None:
    special = SpecialTokens.first("end", "padding", "class_")
    assert special.signs == ("<pad>", "<end>", "<class>")
    assert SpecialTokens.of((*special.signs, "a", "<mask>")) == special  # a token of the text is not special
    assert SpecialTokens.of(("a", "b")).ids == {}
    assert special.sizes == {"padding_token": 0, "end_token": 1, "class_token": 2}
    with pytest.raises(UsageError, match="special tokens are padding, begin"):
        SpecialTokens.first("start")


def test_rows_are_padded_by_the_padding_token() -> None:
    x, lengths = padded([[3], [4, 5, 6], []], padding=9)
    assert torch.equal(x, torch.tensor([[3, 9, 9], [4, 5, 6], [9, 9, 9]]))
    assert lengths.tolist() == [1, 3, 0]
