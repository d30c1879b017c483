"""Runs on ratings by the command line: killed and resumed, evaluated, completed, and in two processes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import deepcanon as dc
from deepcanon.cli.app import app
from deepcanon.core import UsageError
from deepcanon.runs.folder import RunFolder
from tests.processes import done, killed, together

TRAIN = ("train", "ratings_rbm", "--units", "8", "--seed", "3", "--threads", "1")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.slow
def test_killed_and_resumed_it_ends_with_the_same_bits_and_completes_the_ratings(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words = (*TRAIN, "--epochs", 3, "--checkpoint-every", 5)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    done(*words, "--out", unbroken)
    killed(*words, "--out", broken, step=10)
    assert RunFolder.open(broken).info["status"] == "running"
    request.getfixturevalue("drawn")
    done("resume", broken)
    ours, wanted = (RunFolder.open(folder).read_weights() for folder in (broken, unbroken))
    assert ours.keys() == wanted.keys()
    assert all(torch.equal(value, wanted[name]) for name, value in ours.items())

    run = dc.Run(broken)
    model: Any = run.model
    assert run.info["data"]["name"] == "ratings"
    assert run.evaluate()["test"] == pytest.approx(run.scores["test"])
    assert {"completed.png", "predictions.png"} <= {path.name for path in (broken / "pictures").iterdir()}
    assert "1000 predictions of ratings_rbm" in done("predict", broken, "--out", tmp_path / "out.csv")
    rows = table(tmp_path / "out.csv")
    found = torch.tensor([[float(value) for value in row.values()] for row in rows])
    test = run.data.split("test")
    torch.testing.assert_close(found, model.predict(test.x, how="mean").detach())
    assert torch.equal(found[test.observed], test.x[test.observed])  # what was given stays
    assert ((found >= 1) & (found <= 5)).all()


@pytest.mark.slow
def test_ratings_of_a_file_are_learned_and_those_of_new_users_completed(tmp_path: Path) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randint(1, 5, (60, 3), generator=random)
    there = torch.rand(60, 3, generator=random) < 0.7
    lines = [
        ",".join(str(int(value)) if seen else "" for value, seen in zip(row, mask, strict=True))
        for row, mask in zip(x, there, strict=True)
    ]
    (tmp_path / "movies.csv").write_text("Alien,Brazil,Dune\n" + "\n".join(lines) + "\n")
    done(*TRAIN, "--data", f"{tmp_path / 'movies.csv'}:ratings", "--epochs", 2, "--out", tmp_path / "run")
    (tmp_path / "new.csv").write_text("Dune,Alien,Brazil\n4,,\n,,1\n")  # in another order
    for name in ("new.csv", "new.csv:ratings"):
        done("predict", tmp_path / "run", "--data", tmp_path / name, "--out", tmp_path / "out.csv", "--overwrite")
        first, second = table(tmp_path / "out.csv")
        assert list(first) == ["Alien", "Brazil", "Dune"]
        assert (first["Dune"], second["Brazil"]) == ("4", "1")
        assert 1 < float(first["Alien"]) < 4
    scores = dc.Run(tmp_path / "run").evaluate(tmp_path / "new.csv")["test"]
    assert 0 < scores["rmse"] < 4
    (tmp_path / "new.csv").write_text("Dune,Alien,Brazil\n5,,\n")
    answer = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), "--data", str(tmp_path / "new.csv"),
                                      "--out", str(tmp_path / "o.csv")])  # fmt: skip
    assert answer.exit_code == 2
    assert "whole numbers from 1 to 4" in answer.stderr


@pytest.mark.slow
def test_two_processes_learn_as_one(tmp_path: Path) -> None:
    words = (*TRAIN, "--epochs", 12, "--batch-size", 99)
    done(*words, "--out", tmp_path / "alone")
    together(*words, "--out", tmp_path / "together")
    run, alone = dc.Run(tmp_path / "together"), dc.Run(tmp_path / "alone")
    assert run.info["environment"]["processes"] == 2
    assert run.scores["test"]["rmse"] == pytest.approx(alone.scores["test"]["rmse"], abs=0.02)  # their chains differ


def test_predictions_for_a_file_with_users_begin_with_these(tmp_path: Path) -> None:
    rows = [f"u{row:02},{1 + row % 4},{1 + row % 3}" for row in range(30)]
    (tmp_path / "movies.csv").write_text("\n".join(["user_id,Alien,Dune", *rows]) + "\n")
    run = dc.Run.train("ratings_rbm:units=4", f"{tmp_path / 'movies.csv'}:ratings", steps=1, quiet=True,
                       out=tmp_path / "run")  # fmt: skip
    (tmp_path / "new.csv").write_text("Dune,USER,Alien\n2,007,\n,ann,4\n")
    found = run.predict(tmp_path / "new.csv")
    assert list(found) == ["USER", "Alien", "Dune"]
    assert (found["USER"], found["Dune"][0], found["Alien"][1]) == (["007", "ann"], 2, 4)


def test_each_user_is_recommended_the_best_of_what_is_not_rated(tmp_path: Path) -> None:
    """In either form of a file, by the predictions that are written without --top."""
    random = torch.Generator().manual_seed(0)
    x = torch.randint(1, 6, (30, 6), generator=random)
    there = torch.rand(30, 6, generator=random) < 0.5
    long = [f"u{user},i{item},{int(x[user, item])}" for user, item in there.nonzero().tolist()]
    (tmp_path / "long.csv").write_text("\n".join(["user,item,rating", *long]) + "\n")
    words = [[str(int(x[user, item])) if there[user, item] else "" for item in range(6)] for user in range(30)]
    rows = [",".join([f"u{user}", *each]) for user, each in enumerate(words)]
    (tmp_path / "wide.csv").write_text("\n".join(["user," + ",".join(f"i{i}" for i in range(6)), *rows]) + "\n")
    run = dc.Run.train("ratings_rbm:units=4", tmp_path / "long.csv", steps=5, quiet=True, out=tmp_path / "run")
    every = run.predict(tmp_path / "long.csv")
    wanted: list[tuple[str, str, float]] = []
    for user in dict.fromkeys(every["user"]):
        own = [each for each in zip(*every.values(), strict=True) if each[0] == user]
        wanted += sorted(own, key=lambda each: -each[2])[:2]
    best = run.predict(tmp_path / "long.csv", top=2)
    assert list(zip(*best.values(), strict=True)) == wanted
    wide = run.predict(f"{tmp_path / 'wide.csv'}:ratings", top=2)
    assert sorted(zip(wide["user"], wide["item"], strict=True)) == sorted((user, item) for user, item, _ in wanted)
    assert sorted(wide["prediction"]) == pytest.approx(sorted(value for _, _, value in wanted))
    done("predict", run.dir, "--data", tmp_path / "long.csv", "--top", 2, "--out", tmp_path / "best.csv")
    assert [row["item"] for row in table(tmp_path / "best.csv")] == best["item"]
    with pytest.raises(UsageError, match="top must be at least 1"):
        run.predict(tmp_path / "long.csv", top=0)
    (tmp_path / "asked.csv").write_text("user,item,rating\nu0,i1,\nu1,i1,\nu2,i1,\nu2,i2,3\n")
    answer = CliRunner().invoke(app, ["predict", str(run.dir), "--data", str(tmp_path / "asked.csv")])
    assert "has no rating by 2 users" in answer.stderr
    assert "a run keeps no one's ratings; add theirs to the file." in answer.stderr
    other = dc.Run.train("gaussian", "moons", out=tmp_path / "other", quiet=True)
    with pytest.raises(UsageError, match="has no ratings; leave out --top"):
        other.predict(top=3)


def test_a_model_of_whole_rows_refuses_ratings() -> None:
    answer = CliRunner().invoke(app, ["train", "mlp", "--data", "ratings"])
    assert answer.exit_code == 2
    assert "mlp learns from labeled examples; ratings gives ratings" in answer.stderr
