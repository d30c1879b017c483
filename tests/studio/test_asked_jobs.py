"""What a page asks for: every word counts, and no two jobs get one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepcanon.core import UsageError
from deepcanon.studio.jobs import Job
from deepcanon.studio.studio import Studio
from deepcanon.studio.views.training import compare_words, train_words

TRAINING: dict[str, Any] = {"model": "mlp", "data": "moons"}


@pytest.mark.parametrize(("words", "key"), [(train_words, "out"), (train_words, "name"), (compare_words, "model")])
def test_a_word_that_nobody_knows_is_refused(tmp_path: Path, words: Any, key: str) -> None:
    with pytest.raises(UsageError, match=f"nobody knows '{key}' here"):
        words(Studio(tmp_path, caches=tmp_path / "caches"), {"data": "moons", key: "x"})


def test_jobs_that_wait_have_folders_of_their_own(tmp_path: Path) -> None:
    studio = Studio(tmp_path, caches=tmp_path / "caches")
    named = []
    for status in ("running", "waiting", "stopped", "waiting"):
        words, folder = train_words(studio, TRAINING)
        named.append(folder.name)
        job = Job("train", folder.name, words, folder.name, status=status)
        studio.jobs._jobs[job.id] = job
    assert named == ["mlp", "mlp-2", "mlp-3", "mlp-3"]  # the third was stopped before it began
