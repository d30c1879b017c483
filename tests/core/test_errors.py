"""Messages hold values of any length in brief."""

from __future__ import annotations

import pytest

from deepcanon.core import DataError, UsageError
from deepcanon.core.errors import LONGEST_MESSAGE, LONGEST_VALUE, brief


@pytest.mark.parametrize(
    "value", ["x" * 130_000, "words of a cell " * 9000, "it's " * 30_000, '"' * 130_000, "\n" * 130_000]
)
def test_a_long_value_is_cut_in_every_error(value: str) -> None:
    message = str(DataError(f"line 3: a number was expected, got {value!r}; mend it"))
    assert len(message) < 2 * LONGEST_VALUE
    assert message.startswith("line 3: a number was expected, got ")
    assert message.endswith(" characters); mend it")


def test_what_is_not_long_stays_as_it_is() -> None:
    sentence = f"there is no file {'/folder' * 30}; the series' end is 'here', and \"there\""
    assert str(UsageError(sentence)) == sentence


def test_a_message_has_an_end() -> None:
    assert len(brief("many words " * 10_000)) <= LONGEST_MESSAGE
