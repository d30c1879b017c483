"""A few trials of every attack with a fixed seed, more of them where there is time: each must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks._frame import Ended, attacks, fault, trials

SEED = 0


@pytest.mark.parametrize("name", attacks())
def test_a_few_trials_of_each_attack_hold(name: str, tmp_path: Path) -> None:
    _hold(name, 0, attacks()[name].FAST, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", attacks())
def test_many_trials_of_each_attack_hold(name: str, tmp_path: Path) -> None:
    attack = attacks()[name]
    _hold(name, attack.FAST, attack.SLOW, tmp_path)


def _hold(name: str, first: int, count: int, folder: Path) -> None:
    done = list(trials(name, range(first, first + count), SEED, folder))
    assert len(done) == count
    assert [f"{number}: {trial.what}: {trial.fault}" for number, trial in done if trial.fault] == []


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(None, "", "", 60.0), "did not end within 60 s"),
        (Ended(1, "", "Traceback (most recent call last):\n  ...\nKeyError: 'x'\n", 1.0), "traceback: KeyError: 'x'"),
        (Ended(-6, "", "terminate called\n", 1.0), "died of signal 6"),
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
