"""Comparisons in the studio: every number is that of compare.json, kinds of evidence stay apart, also under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.comparison.record import write
from deepcanon.studio.views import compare

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = torch.randn(240, 2, generator=torch.Generator().manual_seed(0)) @ torch.tensor([[2.0, 1.0], [0.0, 0.5]])
    out = tmp_path_factory.mktemp("root") / "deep" / "compared"
    dc.compare(["ppca", "vae:hidden=4,latent=1"], x, out, seeds=2, budget=1, baselines="none")
    return out


def content(folder: Path) -> Any:
    return json.loads((folder / "compare.json").read_text())


def test_numbers_are_those_of_the_file(folder: Path) -> None:
    found, runs = compare.compared(folder), content(folder)["runs"]
    assert (found["status"], found["done"], found["planned"]) == ("finished", 4, 4)
    [section] = found["sections"]
    names = [column["title"] for column in section["columns"]]
    for row in section["rows"]:
        own = [entry["measured"] for entry in runs if entry["label"] == row["label"]]
        assert row["cells"][names.index("training, s")]["values"] == [each["seconds"] for each in own]
        nats = [each["likelihood"]["nats"] for each in own]
        assert row["cells"][names.index("nats")]["values"] == nats
        assert row["cells"][names.index("nats")]["mean"] == pytest.approx(sum(nats) / 2)
        assert [seed["seed"] for seed in row["seeds"]] == [0, 1]
        assert all((folder / seed["run"] / "run.json").is_file() for seed in row["seeds"])
    costs = {column["title"] for column in section["columns"] if column["cost"]}
    assert {"training, s", "parameters"} <= costs


def test_a_bound_and_an_exact_value_never_share_a_block(folder: Path) -> None:
    [section] = compare.compared(folder)["sections"]
    groups = {group["kind"]: [row["label"] for row in group["rows"]] for group in section["ladder"]["groups"]}
    assert groups == {"exact": ["ppca"], "lower bound": ["vae:hidden=4,latent=1"]}
    [bound] = [group for group in section["ladder"]["groups"] if group["kind"] == "lower bound"]
    assert [seed["seed"] for seed in bound["rows"][0]["seeds"]] == [0, 1]
    assert "lies higher" in bound["meaning"]


def test_one_that_is_under_way_shows_what_there_is(folder: Path, tmp_path: Path) -> None:
    half = compare.read(folder)
    half["status"], half["differences"] = "running", []
    half["runs"] = half["runs"][:1]
    write(tmp_path / "half", half)
    begun = tmp_path / "half" / "vae-plain" / "seed-1"
    begun.mkdir(parents=True)
    (begun / "run.json").write_text("{}")
    found = compare.compared(tmp_path / "half")
    assert (found["status"], found["done"], found["planned"], found["report"]) == ("running", 1, 4, False)
    assert found["training"] == ["vae-plain/seed-1"]
    assert len(found["sections"][0]["rows"]) == 1
    with pytest.raises(dc.UsageError, match="no report yet"):
        compare.report(tmp_path / "half")


def test_comparisons_are_found_and_nothing_outside_is_read(folder: Path, tmp_path: Path) -> None:
    assert list(compare.comparison_folders(folder.parents[1])) == [folder]
    assert compare.report(folder).startswith(b"<!doctype html>")
    pictures = compare.samples(folder)
    assert [path.parent.parent.parent.parent for path in pictures] == [folder] * len(pictures)
    evil = compare.read(folder)
    (tmp_path / "secret" / "pictures").mkdir(parents=True)
    (tmp_path / "secret" / "pictures" / "samples.png").write_bytes(b"secret")
    for entry in evil["runs"]:
        entry["run"] = "../secret"
    write(tmp_path / "evil", evil)
    assert compare.samples(tmp_path / "evil") == []
    assert compare.place_of(tmp_path / "evil", "../secret") is None
