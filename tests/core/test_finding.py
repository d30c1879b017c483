"""A finding is written whole, and its numbers are read back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deepcanon.core.finding import Finding
from deepcanon.pictures.style import new_figure


def test_a_finding_is_a_picture_and_its_numbers(tmp_path: Path) -> None:
    figure = new_figure(2, 2)
    figure.subplots().plot([0, 1])
    finding = Finding({"rates": [0.1, float("inf")], "best": {"rate": 0.1}, "steps": 3}, figure, ("The best is 0.1.",))
    written = finding.save(tmp_path / "new", "rates")
    assert sorted(path.name for path in written) == ["rates.json", "rates.png"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["rates.json", "rates.png"]
    read = json.loads((tmp_path / "new" / "rates.json").read_text(encoding="utf-8"))
    assert read == {"rates": [0.1, None], "best": {"rate": 0.1}, "steps": 3}


def test_what_is_no_number_of_json_leaves_no_file_behind(tmp_path: Path) -> None:
    figure = new_figure(2, 2)
    figure.subplots()
    with pytest.raises(TypeError):
        Finding({"set": {1, 2}}, figure, ()).save(tmp_path, "bad")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.png"]
