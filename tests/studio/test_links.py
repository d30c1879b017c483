"""Links in a folder of runs: whatever one leads to may be any file of the user's, and is not shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs starlette, of deepcanon[studio]")

from tests.studio.made import make_run, served, step


@pytest.mark.parametrize("name", ["run.json", "log.jsonl", "notes.json", "pictures", "looks/doctor.json", "looks"])
def test_what_a_link_in_a_run_leads_to_is_never_shown(tmp_path: Path, name: str) -> None:
    other = make_run(tmp_path / "private", [step(1, 77.5)])
    (other / "notes.json").write_text('{"tags": ["private"], "note": "private"}')
    for folder, file in (("pictures", "private.png"), ("looks", "doctor.json")):
        (other / folder).mkdir()
        (other / folder / file).write_text('{"private": 1}')
    link = make_run(tmp_path / "runs" / "one", [step(1, 0.5)]) / name
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(other / name)
    with served(tmp_path / "runs") as studio:
        rows = studio.get("/api/runs")["runs"]
        paths = ("", "/pictures/0", "/doctor", "/film?name=private&step=1")
        answers = [studio.ask("GET", f"/api/runs/{row['id']}{path}")[2].decode() for row in rows for path in paths]
    shown = "".join([json.dumps(rows), *answers])
    assert "private" not in shown
    assert "77.5" not in shown


def test_a_comparison_that_is_a_link_is_not_shown(tmp_path: Path) -> None:
    for folder in (tmp_path / "private", tmp_path / "runs" / "one"):
        folder.mkdir(parents=True)
    (tmp_path / "private" / "compare.json").write_text("{}")
    (tmp_path / "runs" / "one" / "compare.json").symlink_to(tmp_path / "private" / "compare.json")
    with served(tmp_path / "runs") as studio:
        assert studio.get("/api/comparisons") == {"comparisons": []}
