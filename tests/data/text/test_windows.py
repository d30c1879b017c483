"""Windows overlap by one token, and put together they are the stream they were cut from."""

import pytest
import torch

from deepcanon.core import DataError
from deepcanon.data.text.windows import stream, windows


@pytest.mark.parametrize("length", [1, 2, 7, 100])
@pytest.mark.parametrize("tokens", [2, 7, 8, 9, 50])
def test_every_token_but_the_first_is_predicted_once(tokens: int, length: int) -> None:
    whole = torch.arange(tokens) + 5
    part = windows(whole, length)
    assert part.x.shape == (-(-(tokens - 1) // length), length + 1)
    assert int((part.lengths - 1).sum()) == tokens - 1
    assert (part.lengths >= 2).all()
    for row, size in zip(part.x, part.lengths, strict=True):
        assert torch.equal(row[:size], torch.arange(int(row[0]), int(row[0]) + int(size)))
        assert not row[size:].any()
    assert torch.equal(part.x[1:, 0], part.x[:-1, -1])
    assert torch.equal(stream(part), whole)


def test_one_token_predicts_nothing() -> None:
    with pytest.raises(DataError, match="at least 2 tokens"):
        windows(torch.zeros(1, dtype=torch.long), 4)
