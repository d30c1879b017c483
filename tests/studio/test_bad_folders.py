"""Folders that somebody else has made: whatever stands in one, the runs beside it are still shown, and at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deepcanon.core.files import seal
from tests.studio.made import info_of, make_run, served, step

SURROGATE = "\ud800"
DATA: dict[str, Any] = info_of()["data"]


def pipe(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)


def write(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)


def sparse(folder: Path, name: str) -> None:
    with (folder / name).open("r+b") as file:
        file.truncate(2**32)


def link(folder: Path, name: str, target: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.symlink(target, folder / name)


def named_badly(folder: Path) -> None:
    shutil.copytree(folder, os.fsdecode(os.fsencode(folder.parent) + b"/bad-\xff\xfe"))


def sealed(**changes: Any) -> bytes:
    return seal(info_of(**changes))


FAULTS: dict[str, Callable[[Path], None]] = {
    "a pipe for run.json": lambda folder: pipe(folder, "run.json"),
    "a pipe for the log": lambda folder: pipe(folder, "log.jsonl"),
    "a pipe for the notes": lambda folder: pipe(folder, "notes.json"),
    "run.json of four gigabytes": lambda folder: sparse(folder, "run.json"),
    "a log of four gigabytes": lambda folder: sparse(folder, "log.jsonl"),
    "a name that is not UTF-8": named_badly,
    "half a letter in a name": lambda folder: write(
        folder, "run.json", sealed(data={**info_of()["data"], "name": SURROGATE})
    ),
    "JSON that is too deep": lambda folder: write(folder, "run.json", b"[" * 200_000),
    "notes that are too deep": lambda folder: write(folder, "notes.json", b"[" * 200_000),
    "no object": lambda folder: write(folder, "run.json", b"[1, 2]"),
    "lists for mappings": lambda folder: write(folder, "run.json", sealed(results=[1], settings="x", data=None)),
    "a number for a status": lambda folder: write(folder, "run.json", sealed(status=3, created=[], parameters="many")),
    "a log of other things": lambda folder: write(
        folder,
        "log.jsonl",
        b'{"kind": "step", "step": "x", "terms": [], "loss": {}}\n[]\n{"kind": "step"}\n"\n\xff\xfe\n',
    ),
    "a log that is another file": lambda folder: link(folder, "log.jsonl", "/etc/passwd"),
    "run.json that is another file": lambda folder: link(folder, "run.json", "/etc/passwd"),
    "notes that are a list": lambda folder: write(folder, "notes.json", b"[]"),
    "the name of a prototype": lambda folder: write(
        folder, "run.json", sealed(settings={"__proto__": {"x": 1}, "constructor": 1, "epochs": 2})
    ),
}


def test_a_fault_in_one_folder_hides_no_other_run(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_run(root / "good", [step(1, 0.5), step(2, 0.25)])
    for fault, plant in FAULTS.items():
        plant(make_run(root / fault, [step(1, 0.5)]))
    with served(root) as studio:
        rows = {row["name"]: row for row in studio.get("/api/runs")["runs"]}
        assert rows["good"]["loss"] == 0.25
        assert rows["no object"]["status"] == "damaged"
        for name, row in rows.items():
            for path in (f"/api/runs/{row['id']}", f"/api/curves?name=loss&runs={row['id']}&width=50"):
                status, _, body = studio.ask("GET", path)
                assert status in (200, 400), (name, path, body[:200])
                assert b"root:" not in body, f"{name} showed another file"


def test_a_picture_that_no_server_should_hold_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "run", [step(1, 0.5)])
    (run / "pictures").mkdir()
    write(run / "pictures", "huge.png", b"")
    sparse(run / "pictures", "huge.png")
    with served(tmp_path / "runs") as studio:
        (row,) = studio.get("/api/runs")["runs"]
        status, _, answer = studio.ask("GET", f"/api/runs/{row['id']}/pictures/0")
        assert status == 400
        assert b"4,294,967,296 bytes" in answer
