"""The runs of the benchmark of the studio: the same curves as runs of ours, of TensorBoard and of trackio."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np

from deepcanon.core.files import seal
from deepcanon.runs.log_lines import log_lines

DIFFERENT = 10
"""How many different curves there are."""


def make(folder: Path, runs: int, points: int, tools: list[str]) -> None:
    for tool in tools:
        makers[tool](folder / tool, runs, points)
        print(f"made those of {tool}", flush=True)


def losses(number: int, points: int) -> list[float]:
    """A falling curve with noise and one spike."""
    random = np.random.default_rng(number)
    curve = 0.2 + np.exp(-np.arange(points) / (points / 8)) + 0.05 * random.standard_normal(points)
    curve[points * (number + 3) // 17] += 3.0
    return [float(value) for value in curve]


def _our_runs(folder: Path, runs: int, points: int) -> None:
    for number in range(DIFFERENT):
        values = losses(number, points)
        first = folder / f"run-{number:03d}"
        first.mkdir(parents=True)
        records = (
            {
                "kind": "step", "step": n + 1, "epoch": 1 + n // 1000, "seconds": round(n / 200, 3),
                "terms": {"nll": value}, "loss": value, "lr": 0.002, "grad_norm": 1 + value / 3,
            }
            for n, value in enumerate(values)
        )  # fmt: skip
        (first / "log.jsonl").write_bytes(log_lines(records, 0)[0])
        for copy in range(number, runs, DIFFERENT):
            _describe(folder / f"run-{copy:03d}", first, copy)


def _describe(run: Path, first: Path, seed: int) -> None:
    run.mkdir(exist_ok=True)
    if run != first:
        shutil.copy(first / "log.jsonl", run / "log.jsonl")
    info = {
        "format": 1, "status": "finished", "created": f"2026-01-01T{seed // 60:02d}:{seed % 60:02d}:00+00:00",
        "model": {"model": "mlp", "arguments": {"hidden": [64]}}, "parameters": 1000,
        "data": {"name": "digits"}, "settings": {"epochs": 100, "lr": 0.002, "seed": seed}, "environment": {},
        "results": {"steps": 1, "seconds": 500.0, "train": {}, "valid": {}, "test": {"nll": 0.2}},
    }  # fmt: skip
    (run / "run.json").write_bytes(seal(info))


def _tensorboard_runs(folder: Path, runs: int, points: int) -> None:
    for number in range(DIFFERENT):
        _tensorboard_run(folder / f"run-{number:03d}", losses(number, points))
    for copy in range(DIFFERENT, runs):
        shutil.copytree(folder / f"run-{copy % DIFFERENT:03d}", folder / f"run-{copy:03d}")


def _tensorboard_run(folder: Path, values: list[float]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(parents=True)
    with (folder / "events.out.tfevents.1767225600.bench").open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
        for step, value in enumerate(values, 1):
            summary = Summary(value=[Summary.Value(tag="loss", simple_value=value)])
            writer.write(Event(wall_time=step / 200, step=step, summary=summary).SerializeToString())


def _trackio_runs(folder: Path, runs: int, points: int) -> None:
    """The runs in trackio's own data base: ten by its own function, the others copied there by SQL."""
    os.environ["TRACKIO_DIR"] = str(folder)
    from trackio.sqlite_storage import SQLiteStorage

    for number in range(DIFFERENT):
        values = [{"loss": value} for value in losses(number, points)]
        SQLiteStorage.bulk_log("bench", f"run-{number:03d}", values, steps=list(range(1, points + 1)))
    path = SQLiteStorage.init_db("bench")
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA synchronous = OFF")
        found = base.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
        for name, _ in found:  # made anew when all rows are there, which is quicker
            base.execute(f"DROP INDEX {name}")
        for table in ("metrics", "configs"):
            kept = [row[1] for row in base.execute(f"PRAGMA table_info({table})") if row[1] not in ("id", "log_id")]
            for copy in range(DIFFERENT, runs):
                others = {"run_name": f"'run-{copy:03d}'", "run_id": f"run_id || '-{copy}'"}
                chosen = ", ".join(others.get(name, name) for name in kept)
                copied = f"SELECT {chosen} FROM {table} WHERE run_name = 'run-{copy % DIFFERENT:03d}'"
                base.execute(f"INSERT INTO {table} ({', '.join(kept)}) {copied}")
        for _, made in found:
            base.execute(made)


makers = {"ours": _our_runs, "tensorboard": _tensorboard_runs, "trackio": _trackio_runs}
