"""A run on many graphs by the command line: killed and resumed, evaluated, predicted, and in two processes."""

from __future__ import annotations

import csv
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import deepcanon as dc
from deepcanon.cli.app import app
from deepcanon.core import LabeledGraphs
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder

TRAIN = ("train", "graph_classifier", "--data", "planted-graphs", "--hidden", "8,8", "--seed", "3", "--threads", "1")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "deepcanon", *map(str, words)]


def done(*words: object) -> str:
    answer = CliRunner().invoke(app, list(map(str, words)))
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout


@pytest.mark.slow
def test_killed_and_resumed_it_ends_with_the_same_bits_and_predicts_every_graph(tmp_path: Path) -> None:
    words = (*TRAIN, "--dropout", 0.2, "--epochs", 3, "--checkpoint-every", 10)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    done(*words, "--out", unbroken)
    with subprocess.Popen(
        command(*words, "--out", broken), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        until = time.monotonic() + 120
        while len(checkpoint.saved(broken / "checkpoints")) < 3 and time.monotonic() < until:
            time.sleep(0.005)
        child.kill()
        child.wait()
    assert child.returncode == -9
    assert RunFolder.open(broken).info["status"] == "running"
    done("resume", broken)
    ours, wanted = (RunFolder.open(folder).read_weights() for folder in (broken, unbroken))
    assert ours.keys() == wanted.keys()
    assert all(torch.equal(value, wanted[name]) for name, value in ours.items())

    test: LabeledGraphs = dc.load_data("planted-graphs").split("test")
    run = dc.Run(broken)
    assert run.evaluate()["test"] == pytest.approx(run.scores["test"])
    assert "300 predictions of graph_classifier" in done("predict", broken, "--out", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8") as lines:
        said = [row["prediction"] for row in csv.DictReader(lines)]
    assert said == [run.data.labels[label] for label in run.model.predict(*test.inputs).tolist()]  # type: ignore[operator]


@pytest.mark.slow
def test_two_processes_are_one(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    words = (*TRAIN, "--steps", 20, "--batch-size", 33)
    done(*words, "--out", tmp_path / "alone")
    launcher = ["torch.distributed.run", "--nproc-per-node=2", f"--master-port={port}", "-m"]
    together = command(*words, "--out", tmp_path / "together")
    answer = subprocess.run(
        [*together[:2], *launcher, *together[2:]],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    ours, wanted = (RunFolder.open(tmp_path / name).read_weights() for name in ("together", "alone"))
    for name, value in ours.items():
        torch.testing.assert_close(value, wanted[name], rtol=0, atol=2e-5)
    assert RunFolder.open(tmp_path / "together").info["environment"]["processes"] == 2
