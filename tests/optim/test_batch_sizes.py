"""Schedules of the batch size against their closed forms."""

import pytest

from deepcanon.core import UsageError
from deepcanon.optim import batch_size_schedule


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("constant", [10, 10, 10, 10, 10, 10]),
        ("linear:by=5", [10, 15, 20, 25, 30, 35]),
        ("linear:by=2.5,every=2", [10, 10, 12, 12, 15, 15]),
        ("linear:by=5,most=22", [10, 15, 20, 22, 22, 22]),
        ("linear:by=0", [10] * 6),
        ("exponential", [10, 20, 40, 80, 160, 320]),
        ("exponential:by=5,every=3", [10, 10, 10, 50, 50, 50]),
        ("exponential:by=1.5,most=30", [10, 15, 22, 30, 30, 30]),
        ("exponential:by=1", [10] * 6),
        ("exponential:most=4", [10] * 6),
    ],
)
def test_sizes_follow_the_closed_form(text: str, sizes: list[int]) -> None:
    size = batch_size_schedule(text)
    assert [size(epoch, 10) for epoch in range(6)] == sizes


def test_a_size_beyond_all_numbers_is_still_one() -> None:
    assert batch_size_schedule("exponential:by=1.5,most=512")(10_000, 8) == 512
    assert batch_size_schedule("exponential:by=1.5")(10_000, 8) > 10**18


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exponentail", "no batch-size schedule 'exponentail'; did you mean exponential"),
        ("linear:rate=2", "no option 'rate'; it has by, every, most"),
        ("linear:first=2", "no option 'first'"),
        ("exponential:by=0.5", "by a factor of at least 1, got by=0.5"),
        ("linear:by=-1", "by at least 0 examples, got by=-1"),
        ("linear:by=much", "needs a number for by, got 'much'"),
        ("linear:by=true", "needs a number for by, got True"),
        ("linear:every=0", "every of a batch-size schedule is a whole number of at least 1, got 0"),
        ("linear:every=1.5", "a whole number of at least 1, got 1.5"),
        ("exponential:most=none", "most of a batch-size schedule is a whole number"),
        ("constant:by=2", "no option 'by'; it has none"),
    ],
)
def test_wrong_schedules_are_refused_with_a_sentence(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        batch_size_schedule(text)
