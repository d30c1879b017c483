"""Runs on other data than rows by the command line: killed and resumed, evaluated, their output, and two processes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import deepcanon as dc
from deepcanon.core import LabeledGraphs
from deepcanon.runs.folder import RunFolder
from tests.processes import done, killed, together


class Kind(NamedTuple):
    """The words of a training, what makes it random, how many steps or epochs, and the command of its output."""

    train: tuple[str, ...]
    random: tuple[str, ...]
    long: tuple[str, ...]
    short: tuple[str, ...]
    output: tuple[str, ...]


KINDS = {
    "graph_classifier": Kind(
        ("--data", "planted-graphs", "--hidden", "8,8"), ("--dropout", "0.2"), ("--epochs", "3"),
        ("--steps", "20", "--batch-size", "33"), ("predict",),
    ),
    "graph_generator": Kind(
        ("--units", "8", "--edge-units", "4"), (), ("--steps", "40"), ("--steps", "6", "--batch-size", "9"),
        ("sample", "-n", "20"),
    ),
    "link_predictor": Kind(
        ("--data", "planted-links", "--hidden", "8", "--latent", "4"), ("--dropout", "0.2"), ("--steps", "60"),
        ("--steps", "6", "--dropout", "0"), ("predict",),
    ),
    "deepar": Kind(
        ("--data", "series", "--units", "4", "--layers", "1"), ("--dropout", "0.2"),
        ("--steps", "40", "--batch-size", "16"), ("--steps", "6", "--batch-size", "9"),
        ("forecast", "--steps", "2", "--samples", "5"),
    ),
    "cyclegan": Kind(
        ("--data", "two-domains", "--hidden", "8"), ("--history", "20"), ("--steps", "60", "--batch-size", "16"),
        ("--steps", "8", "--batch-size", "9", "--history", "0"), ("predict", "--to", "y"),
    ),
    "seq2seq_attention": Kind(
        ("--data", "dates", "--units", "8", "--embedding", "8"), ("--dropout", "0.2"),
        ("--steps", "40", "--batch-size", "16"), ("--steps", "6", "--batch-size", "9", "--dropout", "0"), ("predict",),
    ),
    "bert": Kind(
        ("--data", "stories", "--embedding", "8", "--heads", "2", "--layers", "1"), ("--dropout", "0.2"),
        ("--steps", "40", "--batch-size", "16"), (), ("predict",),
    ),
    "caption": Kind(
        ("--data", "scenes", "--hidden", "4,4", "--embedding", "8", "--units", "8"), ("--dropout", "0.2"),
        ("--steps", "40", "--batch-size", "16"), ("--steps", "6", "--batch-size", "9", "--dropout", "0"), ("predict",),
    ),
    "caption_to_image": Kind(
        ("--data", "scenes", "--hidden", "4,4", "--embedding", "8", "--units", "8", "--latent", "2"), (),
        ("--steps", "40", "--batch-size", "16"), (), ("sample", "-n", "128", "--given", "a three left of a seven"),
    ),
    "video_flow": Kind(
        ("--data", "moving-digits:dequantized", "--depth", "1", "--hidden", "4", "--scales", "1"), (),
        ("--steps", "40", "--batch-size", "16"), ("--steps", "6", "--batch-size", "9"), ("sample", "-n", "128"),
    ),
}  # fmt: skip


def words_of(name: str, *more: object) -> list[str]:
    return ["train", name, *KINDS[name].train, "--seed", "3", "--threads", "1", *map(str, more)]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_killed_and_resumed_it_ends_with_the_same_bits_and_gives_its_output(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    words = words_of(name, *kind.random, *kind.long, "--checkpoint-every", 10)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    done(*words, "--out", unbroken)
    killed(*words, "--out", broken, step=20)
    assert RunFolder.open(broken).info["status"] == "running"
    done("resume", broken)
    ours, wanted = (RunFolder.open(folder).read_weights() for folder in (broken, unbroken))
    assert ours.keys() == wanted.keys()
    assert all(torch.equal(value, wanted[key]) for key, value in ours.items())
    run = dc.Run(broken)
    assert run.evaluate()["test"] == pytest.approx(run.scores["test"])
    command, *options = kind.output
    for folder, out in ((broken, "a.csv"), (unbroken, "b.csv")):
        done(command, folder, *options, "--out", tmp_path / out)
    rows = (tmp_path / "a.csv").read_text(encoding="utf-8")
    assert len(rows.splitlines()) > 100
    assert rows == (tmp_path / "b.csv").read_text(encoding="utf-8")
    if name == "graph_classifier":
        test: LabeledGraphs = run.data.split("test")
        with (tmp_path / "a.csv").open(encoding="utf-8") as lines:
            said = [row["prediction"] for row in csv.DictReader(lines)]
        assert said == [run.data.labels[label] for label in run.model.predict(*test.inputs).tolist()]  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, kind in KINDS.items() if kind.short]
)  # else masks or noise are drawn in each
def test_two_processes_are_one(name: str, tmp_path: Path) -> None:
    words = words_of(name, *KINDS[name].short, "--optimizer", "sgd")
    done(*words, "--out", tmp_path / "alone")
    together(*words, "--out", tmp_path / "together")
    ours, wanted = (RunFolder.open(tmp_path / each).read_weights() for each in ("together", "alone"))
    for key, value in ours.items():
        torch.testing.assert_close(value, wanted[key], rtol=0, atol=2e-5)
    assert RunFolder.open(tmp_path / "together").info["environment"]["processes"] == 2
