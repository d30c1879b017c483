"""The processes of the tests are no yes-men: one that is not killed, or that fails, is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepcanon.runs.folder import RunFolder
from tests.processes import killed, together

TRAIN = ("train", "mlp", "--data", "moons", "--hidden", "2", "--steps", 3, "--checkpoint-every", 1, "--threads", 1)


@pytest.mark.slow
def test_a_training_dies_at_its_checkpoint_and_one_that_ends_before_is_seen(tmp_path: Path) -> None:
    killed(*TRAIN, "--out", tmp_path / "killed", step=2)
    assert RunFolder.open(tmp_path / "killed").info["status"] == "running"
    with pytest.raises(AssertionError, match="ended before it could be killed"):
        killed(*TRAIN, "--out", tmp_path / "whole", step=4)
    assert RunFolder.open(tmp_path / "whole").info["status"] == "finished"


def test_two_processes_that_fail_are_seen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError):
        together("train", "mlp", "--data", tmp_path / "nothing.csv")
    assert "nothing.csv" in capfd.readouterr().err
