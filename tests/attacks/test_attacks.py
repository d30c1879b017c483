"""A few trials of every attack with a fixed seed, more of them where there is time: each must hold."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.attacks._frame import Attack, Ended, attacks, fault, start, trials

SEED = 0


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Attack]:
    """An attack by its name, prepared when it is first wanted, once for all its trials."""
    return cache(lambda name: attacks()[name](tmp_path_factory.mktemp(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", attacks())
def test_many_trials_of_each_attack_hold(name: str, prepared: Callable[[str], Attack], tmp_path: Path) -> None:
    attack = prepared(name)
    _hold(attack, name, range(attack.FAST, attack.FAST + attack.SLOW), tmp_path)


@pytest.mark.parametrize("name", attacks())
def test_a_few_trials_of_each_attack_hold(name: str, prepared: Callable[[str], Attack], tmp_path: Path) -> None:
    attack = prepared(name)
    _hold(attack, name, range(attack.FAST), tmp_path)


def _hold(attack: Attack, name: str, numbers: range, folder: Path) -> None:
    done = list(trials(attack, name, numbers, SEED, folder))
    assert len(done) == len(numbers)
    assert [f"{number}: {trial.what}: {trial.fault}" for number, trial in done if trial.fault] == []


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(None, "", "", 60.0), "did not end within 60 s"),
        (Ended(1, "", "Traceback (most recent call last):\n  ...\nKeyError: 'x'\n", 1.0), "traceback: KeyError: 'x'"),
        (Ended(-6, "", "terminate called\n", 1.0), "died of signal 6"),
        (Ended(-signal.SIGXCPU, "", "", 61.0), "more processor time than it may"),
        (Ended(3, "", "aborted\n", 1.0), "with the code 3"),
        (Ended(1, "", "", 1.0), "without a word"),
        (Ended(2, "", "x" * 5000, 1.0), "5000 characters"),
    ],
)
def test_what_may_never_come_of_a_command_is_seen(ended: Ended, words: str) -> None:
    assert words in fault(ended)


def test_a_sentence_is_no_fault() -> None:
    assert fault(Ended(2, "", "deepcanon: runs/a is not a run: it has no run.json\n", 1.0)) == ""
    assert fault(Ended(0, "{}", "", 1.0)) == ""


def test_a_process_that_computes_or_waits_without_end_is_seen(tmp_path: Path) -> None:
    """By its processor time in the first case, however busy the machine is, and by the clock in the second."""
    assert "processor time" in fault(start("builtins:exec", "while True: pass", cwd=tmp_path, seconds=1).wait())
    assert "did not end" in fault(start("time:sleep", 600, cwd=tmp_path).wait(1))
