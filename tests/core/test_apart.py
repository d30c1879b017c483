"""Functions called in a process of their own: every way to end one is told."""

from __future__ import annotations

import time
from typing import Any

import pytest

from deepcanon.core import UsageError
from deepcanon.core.apart import EndedError, call_apart

PATIENCE = 600
"""Seconds that even a busy machine does not need to begin a process."""


def test_what_a_function_returns_comes_back() -> None:
    assert call_apart("math:hypot", 3, 4, runs="mine.py", seconds=PATIENCE) == 5
    assert call_apart("os.path:split", "a/b", runs="mine.py", seconds=PATIENCE) == ["a", "b"]


@pytest.mark.parametrize(
    ("function", "arguments", "sentence"),
    [
        ("os:_exit", (0,), "mine.py:Net ended the process with the exit code 0 before it was checked"),
        ("os:_exit", (7,), "exit code 7"),
        ("os:abort", (), "was ended by the signal SIGABRT"),
        ("ctypes:string_at", (0,), "was ended by the signal SIGSEGV"),
        ("sys:exit", (0,), r"called sys.exit\(0\)"),
        ("builtins:input", (), "raised EOFError"),
        ("math:sqrt", (-1,), "raised ValueError: math domain error"),
    ],
)
def test_how_a_process_ended_without_an_answer_is_told(function: str, arguments: Any, sentence: str) -> None:
    with pytest.raises(EndedError, match=sentence):
        call_apart(function, *arguments, runs="mine.py:Net", seconds=PATIENCE)


def test_a_process_that_does_not_come_back_is_ended() -> None:
    start = time.perf_counter()
    with pytest.raises(EndedError, match="did not end within 1 seconds"):
        call_apart("time:sleep", 10 * PATIENCE, runs="mine.py", seconds=1)
    assert time.perf_counter() - start < PATIENCE


def test_an_error_of_the_user_stays_one() -> None:
    with pytest.raises(UsageError, match="options are written"):
        call_apart("deepcanon.core.options:split", "a:b", runs="mine.py", seconds=PATIENCE)
