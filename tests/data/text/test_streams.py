"""A text as a stream: the same windows, with their places, read side by side."""

import pytest
import torch

from deepcanon.core import Stream, UsageError
from deepcanon.data import load_data
from deepcanon.data.sets.python_text import corpus
from deepcanon.data.text.windows import stream


def test_a_stream_has_the_windows_of_the_text_and_their_positions() -> None:
    plain, data = load_data("text"), load_data("text:stream")
    assert isinstance(data.train, Stream)
    assert torch.equal(data.train.x, plain.train.x)
    assert torch.equal(data.valid.x, plain.valid.x)  # type: ignore[union-attr]
    whole = stream(plain.train)
    assert len(whole) < len(corpus())
    for row in (0, 17, len(data.train) - 1):
        start, length = int(data.train.starts[row]), int(data.train.lengths[row])
        assert torch.equal(whole[start : start + length], data.train.x[row, :length])
    assert data.name == "text:stream"
    assert data.preprocessing["form"] == "stream"


@pytest.mark.parametrize("size", [1, 3, 32])
def test_the_rows_of_a_batch_go_on_in_the_next(size: int) -> None:
    train = load_data("text:stream").train
    order = train.order(size, torch.Generator())
    assert order.sort().values.tolist() == list(range(len(train)))
    whole = order[: len(train) // size * size].view(-1, size)
    assert bool((whole[1:] == whole[:-1] + 1).all())


def test_a_stream_is_a_form_of_text() -> None:
    with pytest.raises(UsageError, match="digits gives images, but stream is a form of text"):
        load_data("digits:stream")
