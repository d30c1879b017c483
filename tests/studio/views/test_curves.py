"""Curves: no spike is lost, at no zoom, and few points are exact."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepcanon.core import UsageError
from deepcanon.runs.log_lines import log_lines
from deepcanon.studio.columns import cache_of, record_of, update
from deepcanon.studio.views.curves import bucket_edges, curves, sketch
from tests.studio.made import epoch, make_run, step


def unpacked(content: bytes) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    (length,) = struct.unpack("<I", content[:4])
    head = json.loads(content[4 : 4 + length])
    count = len(head.get("groups", head.get("runs")))
    return head, np.frombuffer(content[4 + length :], "<f4").reshape(count, 3, head["width"])


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, np.ndarray[Any, Any]]:
    """A run of 100,000 records with one spike, its caches, and its losses."""
    root = tmp_path_factory.mktemp("long")
    values = 0.5 + 0.1 * np.random.default_rng(0).standard_normal(100_000)
    values[61_803] = 42.0
    run = root / "run"
    run.mkdir()
    line = '{{"kind": "step", "step": {}, "epoch": 1, "seconds": {}, "loss": {}}}\n'
    (run / "log.jsonl").write_text("".join(line.format(n + 1, n / 8, float(v)) for n, v in enumerate(values)))
    update(run / "log.jsonl", cache_of(run, root / "caches"))
    return run, root / "caches", values


@pytest.mark.parametrize("width", [1, 37, 600, 1000, 4000])
@pytest.mark.parametrize("zoom", [None, (1, 100_000), (50_000, 70_000), (61_000, 62_000), (61_803, 61_805)])
@pytest.mark.parametrize("against", ["step", "seconds"])
def test_one_spike_in_100000_points_is_seen_at_every_zoom(
    long_run: tuple[Path, Path, np.ndarray[Any, Any]], width: int, zoom: tuple[int, int] | None, against: str
) -> None:
    run, caches, values = long_run
    scale = 1.0 if against == "step" else 1 / 8
    low, high = (None, None) if zoom is None else (zoom[0] * scale, zoom[1] * scale)
    head, drawn = unpacked(curves({"a": run}, caches, "loss", against=against, low=low, high=high, width=width))
    assert head["sketched"] == []
    assert np.nanmax(drawn[0, 2]) == np.float32(42.0)
    place = head["start"] + head["size"] * int(np.nanargmax(drawn[0, 2]))
    assert abs(place - 61_804 * scale) <= head["size"] + 16 * scale  # the bucket, and the block that it may begin in
    if zoom is None:
        assert np.nanmin(drawn[0, 0]) == np.float32(values.min())


def test_what_is_drawn_from_values_is_exact(long_run: tuple[Path, Path, np.ndarray[Any, Any]]) -> None:
    run, caches, values = long_run
    head, drawn = unpacked(curves({"a": run}, caches, "loss", low=10_001, high=12_000, width=500))
    assert (head["start"], head["size"], head["width"]) == (10_002.5, 4.0, 500)
    parts = values[10_000:12_000].reshape(500, 4)
    for row, wanted in zip(drawn[0], (parts.min(1), parts.mean(1), parts.max(1)), strict=True):
        np.testing.assert_allclose(row, wanted, rtol=1e-6)


def test_the_means_of_blocks_add_up(long_run: tuple[Path, Path, np.ndarray[Any, Any]]) -> None:
    run, caches, values = long_run
    head, drawn = unpacked(curves({"a": run}, caches, "loss", width=500))
    assert head["size"] == 200.0
    parts = values.reshape(500, 200)
    np.testing.assert_allclose(drawn[0, 1].mean(), parts.mean(), rtol=1e-4)
    assert abs(drawn[0, 1] - parts.mean(1)).max() < 42 / 150  # blocks at the edges go to the bucket that they begin in


def test_few_points_are_exact_and_each_in_a_bucket_of_its_own(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", [*(step(n, n / 7) for n in range(5, 100, 5)), epoch(50, nll=0.5), epoch(95, nll=0.4)]
    )
    for _ in range(2):  # read directly, then from columns
        head, drawn = unpacked(curves({"a": run}, tmp_path / "caches", "loss", width=600))
        there = np.flatnonzero(~np.isnan(drawn[0, 1]))
        assert [head["start"] + head["size"] * n for n in there] == list(range(5, 100, 5))
        np.testing.assert_allclose(drawn[0, 1][there], [n / 7 for n in range(5, 100, 5)], rtol=1e-6)
        head, drawn = unpacked(curves({"a": run}, tmp_path / "caches", "valid.nll"))
        np.testing.assert_allclose(drawn[0, 1][~np.isnan(drawn[0, 1])], [0.5, 0.4], rtol=1e-6)
        update(run / "log.jsonl", cache_of(run, tmp_path / "caches"))


def test_a_group_has_the_band_of_all_its_runs(tmp_path: Path) -> None:
    runs = {str(n): make_run(tmp_path / str(n), [step(s, n + s / 10) for s in range(1, 6)]) for n in range(3)}
    head, drawn = unpacked(curves(runs, tmp_path / "caches", "loss", groups=[["0", "2"], ["1"]]))
    assert head["groups"] == [["0", "2"], ["1"]]
    np.testing.assert_allclose(drawn[0], [[n + s / 10 for s in range(1, 6)] for n in range(3)], rtol=1e-6)
    np.testing.assert_allclose(drawn[1, 0], drawn[1, 2])


def test_a_long_log_is_sketched_before_it_was_read(
    long_run: tuple[Path, Path, np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    run, _, values = long_run
    head, _ = unpacked(curves({"a": run}, tmp_path, "loss"))
    assert head["sketched"] == ["a"]
    assert head["range"] == [1.0, 100_000.0]
    records, whole = sketch(run / "log.jsonl", 100)
    assert not whole
    assert 95 <= len(records) <= 101
    steps = [record["step"] for record in records]
    assert steps == sorted(steps)
    assert all(record["loss"] == values[record["step"] - 1] for record in records)


def test_runs_without_a_log_or_with_a_damaged_one_have_no_curve(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", [step(1, 0.5)])
    empty, lost, torn = (make_run(tmp_path / name) for name in ("empty", "lost", "torn"))
    (lost / "log.jsonl").unlink()
    (torn / "log.jsonl").write_bytes(b"\x00\xff{{{\nnull\n")
    back = make_run(tmp_path / "back", [step(9, 0.5), step(2, 0.5), step(5, 0.5)])  # steps that go back
    update(back / "log.jsonl", cache_of(back, tmp_path / "caches"))
    folders = {"whole": whole, "empty": empty, "lost": lost, "torn": torn, "back": back}
    for low, high in ((None, None), (3.0, 4.0), (8.0, 20.0)):
        head, _ = unpacked(curves(folders, tmp_path / "caches", "loss", low=low, high=high))
        assert head["runs"] == ["whole", "back"]
    assert unpacked(curves({}, tmp_path / "caches", "loss"))[0]["runs"] == []


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 300), st.booleans())
@settings(max_examples=40, deadline=None)
def test_buckets_cover_everything_and_are_never_too_many(low: float, span: float, width: int, whole: bool) -> None:
    edges, size = bucket_edges(low, low + span, width, whole=whole)
    assert len(edges) - 1 <= width
    assert edges[0] <= low
    assert edges[-1] > low + span
    assert size > 0
    assert not whole or size == int(size)


@pytest.mark.parametrize("wrong", [{"against": "loss"}, {"width": 0}, {"width": 10_000}, {"low": float("nan")}])
def test_what_cannot_be_drawn_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    run = make_run(tmp_path / "run", [step(1, 0.5)])
    with pytest.raises(UsageError):
        curves({"a": run}, tmp_path / "caches", "loss", **wrong)


def test_the_log_that_a_training_writes_is_the_one_that_is_read(tmp_path: Path) -> None:
    records = [step(n, 1 / n) for n in range(1, 30)]
    run = make_run(tmp_path / "run", records)
    assert (run / "log.jsonl").read_bytes() == log_lines(records, 0)[0]
    assert [record["loss"] for record in sketch(run / "log.jsonl", 10)[0]] == [1 / n for n in range(1, 30)]


def test_a_sketch_parses_no_line_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = {f"term_{number}": 1.0 for number in range(500)}
    run = make_run(tmp_path / "run", [step(number, 1 / number, terms=terms) for number in range(1, 31)])
    parsed = []

    def counted(line: bytes) -> Any:
        parsed.append(line)
        return record_of(line)

    monkeypatch.setattr("deepcanon.studio.views.curves.record_of", counted)
    records, whole = sketch(run / "log.jsonl", 20_000)
    assert [record["step"] for record in records] == list(range(1, 31))
    assert not whole
    assert len(parsed) <= 31
