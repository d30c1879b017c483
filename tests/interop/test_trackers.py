"""Logging to other tools: what each tool reads back from its own store is what our log says, also after a crash."""

from __future__ import annotations

import importlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import deepcanon as dc
from deepcanon.cli.app import app
from deepcanon.interop import trackers
from deepcanon.interop.trackers import TOOLS, Tracker, numbers_of, tracker

Stored = dict[tuple[str, int], list[float]]
"""By name and step, every number that a tool holds."""

SETTINGS: dict[str, Any] = {"steps": 24, "checkpoint_every": 8, "quiet": True, "seed": 3, "pictures": False}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the tools' own warnings


def of_tensorboard(folder: Path) -> Stored:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "run" / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    found: Stored = {}
    for name in events.Tags()["scalars"]:
        for event in events.Scalars(name):
            found.setdefault((name, event.step), []).append(event.value)
    return found


def of_mlflow(folder: Path) -> Stored:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("deepcanon").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["model"] == "mlp"
    assert run.data.params["seed"] == "3"
    found: Stored = {}
    for name in run.data.metrics:
        for metric in client.get_metric_history(run.info.run_id, name):
            found.setdefault((name, metric.step), []).append(metric.value)
    return found


def of_trackio(folder: Path) -> Stored:
    from trackio.sqlite_storage import SQLiteStorage

    (name,) = {str(record["name"]) for record in SQLiteStorage.get_run_records("deepcanon")}
    found: Stored = {}
    for row in SQLiteStorage.get_logs("deepcanon", name):
        for key, value in row.items():
            if key not in ("step", "timestamp"):
                found.setdefault((key, row["step"]), []).append(value)
    return found


def records_of(content: bytes) -> Iterator[bytes]:
    """The records of a log of LevelDB, the format of wandb's files: blocks of 32 kB, after a header of seven bytes."""
    place, parts = 7, b""
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield parts
            parts = b""


def of_wandb(folder: Path) -> Stored:
    """The newest of the folders that wandb has written, by the messages that its package defines."""
    from wandb.proto import wandb_internal_pb2

    newest = max((folder / "run" / "wandb").glob("offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    found: Stored = {}
    for raw in records_of(newest.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(raw)
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for name, value in items.items():
                if not name.startswith("_"):
                    found.setdefault((name, int(items["_step"])), []).append(value)
    return found


READERS: dict[str, Callable[[Path], Stored]] = {
    "tensorboard": of_tensorboard, "mlflow": of_mlflow, "trackio": of_trackio, "wandb": of_wandb,
}  # fmt: skip


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of MLflow without a run, which takes longer to make than a test."""
    from mlflow.tracking import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tool that is installed, with its store in the folder of the test."""
    name: str = request.param
    pytest.importorskip(name, reason=f"needs {name}")
    if name == "mlflow":
        pytest.importorskip("sqlalchemy", reason="needs mlflow with its database, of deepcanon[mlflow]")
        shutil.copy(request.getfixturevalue("empty_store"), tmp_path / "mlflow.db")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    if name == "trackio":
        for module in ("trackio.utils", "trackio.sqlite_storage"):
            monkeypatch.setattr(f"{module}.TRACKIO_DIR", tmp_path / "trackio", raising=False)
    return name


def logged(folder: Path) -> dict[tuple[str, int], float]:
    """What a tool must hold: the numbers of our own log, and of the test."""
    run = dc.Run(folder / "run")
    found = {(name, record["step"]): value for record in run.folder.log() for name, value in numbers_of(record)}
    results = run.folder.info["results"]
    return found | {(f"test/{name}", results["steps"]): value for name, value in results["test"].items()}


def same(stored: Stored, expected: dict[tuple[str, int], float]) -> None:
    assert stored.keys() == expected.keys()
    for key, values in stored.items():
        assert len(values) == 1, f"{key} was logged {len(values)} times"
        assert math.isclose(values[0], expected[key], rel_tol=1e-6), key  # TensorBoard has single precision


def test_a_tool_holds_the_numbers_of_the_log(tool: str, tmp_path: Path) -> None:
    dc.Run.train("mlp:hidden=4", "moons", out=tmp_path / "run", observers=[tracker(tool)], **SETTINGS)
    expected = logged(tmp_path)
    assert {name for name, _ in expected} >= {"train/loss", "train/lr", "valid/accuracy", "test/accuracy"}
    same(READERS[tool](tmp_path), expected)


class Crash(dc.Observer):
    """Ends the process of a training after a step, as far as the training can tell."""

    def step(self, trainer: dc.Trainer, terms: Any) -> None:
        if trainer.step == 19:
            raise RuntimeError("crash")


@pytest.mark.parametrize("killed", [False, True], ids=["failed", "killed"])
def test_a_run_that_is_resumed_is_one_curve_and_ends_with_the_same_bits(
    tool: str, killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = dc.Run.train("mlp:hidden=4", "moons", out=tmp_path / "whole", **SETTINGS)
    with monkeypatch.context() as patch:
        if killed and tool in ("tensorboard", "mlflow"):  # the others lose what their own thread has not yet written
            patch.setattr(Tracker, "end", lambda self, trainer: None)
        with pytest.raises(RuntimeError, match="crash"):
            dc.Run.train("mlp:hidden=4", "moons", out=tmp_path / "run", observers=[tracker(tool), Crash()], **SETTINGS)
    dc.resume(tmp_path / "run", quiet=True, observers=[tracker(tool)])
    resumed = dc.load(tmp_path / "run").state_dict()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed[name])
    same(READERS[tool](tmp_path), logged(tmp_path))


def test_the_command_line_logs_to_several_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Named(dc.Observer):
        def end(self, trainer: dc.Trainer) -> None:
            asked.append("end")

    def named(tool: str) -> Named:
        asked.append(tool)
        return Named()

    monkeypatch.setattr(trackers, "tracker", named)
    words = ["train", "mlp", "--data", "moons", "--steps", "4", "--out", str(tmp_path / "run"), "--no-pictures"]
    done = CliRunner().invoke(app, [*words, "--log-to", "tensorboard", "--log-to", "mlflow"])
    assert done.exit_code == 0, done.output
    assert asked == ["tensorboard", "mlflow", "end", "end"]


def test_a_tool_that_is_not_known_or_not_there_is_said_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(dc.UsageError, match=r"tensorbord.*did you mean tensorboard"):
        tracker("tensorbord")
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name == "mlflow":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(dc.UsageError, match=r"needs the package mlflow: pip install 'deepcanon\[mlflow\]'"):
        dc.MLflow()


def test_tensorboard_without_a_folder_is_refused() -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    with pytest.raises(dc.UsageError, match="needs a folder"):
        dc.fit(dc.models.MLP(64, 10), "digits", steps=1, quiet=True, observers=[dc.TensorBoard()])
