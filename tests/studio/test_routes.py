"""The addresses of runs and jobs: what they say is what the folder holds, also while it changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs starlette, of deepcanon[studio]")

from deepcanon.core.files import seal
from deepcanon.runs.log_lines import log_lines
from deepcanon.studio.studio import Studio, id_of
from deepcanon.studio.views.runs import held, holder, notes_of
from deepcanon.studio.views.training import catalogue, model_form, train_words
from tests.studio.made import Served, epoch, info_of, make_run, served, step


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Served]:
    make_run(tmp_path / "runs" / "one", [step(1, 0.5), epoch(1, nll=0.4, accuracy=0.8), step(2, 0.25)])
    make_run(tmp_path / "runs" / "deep" / "two", [step(1, 0.9)], status="running", results={})
    with served(tmp_path / "runs") as found:
        yield found


def rows(studio: Served) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in studio.get("/api/runs")["runs"]}


def eventually(true: Callable[[], Any], seconds: float = 600) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


def events(studio: Served) -> Iterator[tuple[str, Any]]:
    connection = HTTPConnection("127.0.0.1", studio.port, timeout=60)
    connection.request("GET", "/api/live", headers={"Authorization": f"Bearer {studio.studio.token}"})
    answer, kind = connection.getresponse(), ""
    try:
        while True:
            if not (line := answer.readline().decode()):
                return
            line = line.rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                yield kind, json.loads(line[6:])
    finally:
        connection.close()


def test_a_row_says_what_the_folder_says(studio: Served) -> None:
    one, two = rows(studio)["one"], rows(studio)["deep/two"]
    assert one["id"] == id_of(Path("runs/one"), Path("runs"))
    assert (one["model"], one["data"], one["status"], one["step"], one["loss"]) == ("mlp", "moons", "finished", 2, 0.25)
    assert one["valid"] == {"nll": 0.4, "accuracy": 0.8}
    assert one["test"] == {"nll": 0.3, "accuracy": 0.9}
    assert one["settings"] == {
        "model": "mlp",
        "data": "moons",
        "features": 2,
        "classes": 2,
        "hidden": "64",
        "epochs": 2,
        "lr": 0.01,
        "seed": 0,
        "batch_size": 32,
    }
    assert one["curves"] == ["loss", "valid.nll", "valid.accuracy", "lr", "grad_norm"]
    assert two["status"] == "interrupted"  # it says that it runs, and nobody holds its lock


def test_runs_that_are_damaged_or_begin_have_a_row(studio: Served, tmp_path: Path) -> None:
    (tmp_path / "runs" / "one" / "run.json").write_bytes(b"{}")
    begun = tmp_path / "runs" / "begun"
    begun.mkdir()
    (begun / ".beginning").touch()
    found = rows(studio)
    assert found["one"]["status"] == "damaged"
    assert "sealed" in found["one"]["problem"]
    assert found["begun"]["status"] == "broken off"
    strange = make_run(tmp_path / "runs" / "strange")
    for info in ({}, {"model": 3}, info_of(model=None), info_of(settings=[])):
        (strange / "run.json").write_bytes(seal(info))
        assert rows(studio)["strange"]["status"] == "damaged"


def test_the_page_of_a_run_has_its_results_settings_and_commands(studio: Served) -> None:
    page = studio.get(f"/api/runs/{rows(studio)['one']['id']}")
    assert page["results"]["test"] == {"nll": 0.3, "accuracy": 0.9}
    assert page["environment"]["torch"] == "2"
    assert page["resources"]["disk"] > 500
    assert page["commands"]["evaluate"].startswith("deepcanon evaluate ")


def test_a_lock_is_seen_and_never_taken(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", status="running")
    assert holder(run, held()) is None
    code = (
        f"import fcntl, time; f = open({str(run / '.lock')!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); "
        "print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        if not held():
            other.kill()
            pytest.skip("this system does not list its locks")
        assert holder(run, held()) == other.pid
        with served(tmp_path) as studio:
            (row,) = studio.get("/api/runs")["runs"]
            assert (row["status"], row["process"]) == ("running", other.pid)
            assert studio.get(f"/api/runs/{row['id']}")["resources"]["memory"] > 0
            assert studio.post(f"/api/runs/{row['id']}/resume", {})[0] == 400
            assert studio.post(f"/api/runs/{row['id']}/stop", {})[0] == 200
            assert other.wait(30) == -signal.SIGTERM
            assert studio.post(f"/api/runs/{row['id']}/stop", {})[0] == 400


def test_notes_are_kept_in_the_folder(studio: Served, tmp_path: Path) -> None:
    id = rows(studio)["one"]["id"]
    assert studio.post(f"/api/runs/{id}/notes", {"tags": [" best ", "best", ""], "note": "läuft"}) == (
        200,
        {"tags": ["best"], "note": "läuft"},
    )
    assert notes_of(tmp_path / "runs" / "one") == {"tags": ["best"], "note": "läuft"}
    assert rows(studio)["one"]["tags"] == ["best"]


@pytest.mark.slow
def test_what_changes_is_told_and_nothing_else(studio: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepcanon.studio.live.SEARCH", 0.1)
    stream = events(studio)
    assert next(stream)[0] == "hello"
    ids = {name: row["id"] for name, row in rows(studio).items()}

    def changed(seconds: float = 60) -> set[str]:
        deadline = time.monotonic() + seconds
        for kind, news in stream:
            if kind == "runs" and (news["changed"] or news["gone"]):
                return {row["id"] for row in news["changed"]} | set(news["gone"])
            assert time.monotonic() < deadline
        return set()

    eventually(lambda: studio.studio.live.reader.waiting() == 0)
    with (tmp_path / "runs" / "one" / "log.jsonl").open("ab") as log:
        log.write(log_lines([step(3, 0.125)], 0)[0])
    while ids["one"] not in changed():
        pass
    eventually(lambda: rows(studio)["one"]["loss"] == 0.125)
    new = make_run(tmp_path / "runs" / "three", [step(1, 1.0)])
    while id_of(new, tmp_path / "runs") not in changed():
        pass
    (new / "run.json").unlink()
    (new / "log.jsonl").unlink()
    while id_of(new, tmp_path / "runs") not in changed():
        pass
    assert sorted(rows(studio)) == ["deep/two", "one"]
    stream.close()  # type: ignore[attr-defined]


def test_an_open_page_does_not_keep_the_studio_from_ending(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "runs" / "one", [step(1, 0.5)])
    with served(tmp_path / "runs") as studio:
        stream = events(studio)
        assert next(stream)[0] == "hello"
    assert len(list(stream)) < 3  # it has an end
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_job_is_a_process_of_the_command_line(studio: Served, tmp_path: Path) -> None:
    jobs = studio.studio.jobs
    folder = tmp_path / "runs" / "new"
    fails = jobs.add("train", "new", ["train", "no_such_model", f"--out={folder}"], folder)
    waits = jobs.add("train", "new", ["--version"], folder)
    assert (fails["status"], waits["status"]) == ("running", "waiting")
    eventually(lambda: {job["status"] for job in jobs.shown()} == {"failed", "finished"})
    failed = next(job for job in studio.get("/api/jobs")["jobs"] if job["status"] == "failed")
    assert failed["said"].startswith("there is no model 'no_such_model'")
    assert studio.post(f"/api/jobs/{failed['id']}/stop", {})[0] == 200
    assert studio.post("/api/jobs/unknown/stop", {})[0] == 404


def test_a_job_that_waits_can_be_taken_back(studio: Served, tmp_path: Path) -> None:
    jobs, folder = studio.studio.jobs, tmp_path / "runs" / "new"
    first = jobs.add("train", "new", ["--help"], folder)
    second = jobs.add("train", "new", ["--help"], folder)
    assert studio.post(f"/api/jobs/{second['id']}/stop", {})[1]["status"] == "stopped"
    studio.post(f"/api/jobs/{first['id']}/stop", {"now": True})
    eventually(lambda: "running" not in {job["status"] for job in jobs.shown()})


def test_the_form_has_the_options_of_the_command_line(tmp_path: Path) -> None:
    from deepcanon.core.settings import Settings

    studio = Studio(tmp_path, files={"mine.csv": tmp_path / "mine.csv"})
    offered = catalogue(studio)
    assert {each["name"] for each in offered["settings"]} == set(Settings.__annotations__)
    assert offered["data"][0] == "mine.csv"
    fields = {field["name"]: field for field in model_form("vae")["arguments"]}
    assert "features" not in fields  # the data say that
    assert fields["likelihood"]["choices"] == ["gaussian", "bernoulli"]
    words, folder = train_words(
        studio,
        {
            "model": "vae",
            "data": "mine.csv:x=1",
            "arguments": {"hidden": "64,32", "latent": 2},
            "settings": {"evaluate": False, "deterministic": False, "lr": "0.5"},
        },
    )
    assert folder == tmp_path / "vae"
    assert words == [
        "train",
        "vae",
        f"--data={tmp_path / 'mine.csv'}:x=1",
        f"--out={tmp_path / 'vae'}",
        "--no-evaluate",
        "--lr=0.5",
        "--hidden=64,32",
        "--latent=2",
        "--json",
    ]
    studio.close()


@pytest.mark.slow
def test_a_training_is_started_watched_killed_and_resumed(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    asked = {
        "what": "train",
        "model": "mlp",
        "data": "moons",
        "settings": {"steps": 2000, "checkpoint_every": 100, "pictures": False},
    }
    with served(root) as studio:
        assert studio.post("/api/jobs", asked)[0] == 200
        run = eventually(lambda: next((row for row in rows(studio).values() if (row["step"] or 0) > 100), None))
        assert run["status"] == "running"
        os.kill(run["process"], signal.SIGKILL)
        eventually(lambda: rows(studio)[run["name"]]["status"] == "interrupted")
        assert studio.post(f"/api/runs/{run['id']}/resume", {})[0] == 200
        eventually(lambda: rows(studio)[run["name"]]["status"] == "finished")
        steps = [json.loads(line)["step"] for line in (root / run["name"] / "log.jsonl").read_text().splitlines()]
        assert steps == sorted(steps)
        assert steps[-1] == 2000
