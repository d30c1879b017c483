"""The judge of the kills is no yes-man: it sees a run that ended otherwise, and a resume that forgot something."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import deepcanon as dc
from deepcanon.runs import checkpoint
from deepcanon.runs.resume import resume
from deepcanon.train import randomness
from tests.attacks.kills import data_of, differences, model_of


def run(folder: Path) -> Path:
    dc.fit(model_of("mlp"), data_of("mlp"), out=folder, quiet=True, steps=12, checkpoint_every=4, keep=9, patience=50)
    return folder


def broken_off(folder: Path) -> None:
    """Take a finished run back to its checkpoint at step 8."""
    checkpoint.set_aside_damaged(folder / "checkpoints", folder / "checkpoints" / "step-000000008")
    (folder / "model.safetensors").unlink()


def test_what_a_resume_forgets_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, again = run(tmp_path / "wanted"), run(tmp_path / "again")
    broken_off(again)
    resume(again, data_of("mlp"), find=dc.find, quiet=True)
    assert differences(wanted, again) == ""
    broken_off(again)
    monkeypatch.setattr(randomness, "restore", lambda saved: torch.manual_seed(1))
    resume(again, data_of("mlp"), find=dc.find, quiet=True)
    assert "it ended otherwise than unbroken" in differences(wanted, again)
