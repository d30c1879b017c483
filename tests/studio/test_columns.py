"""Columns hold what the log holds, whatever happens to the log meanwhile."""

from __future__ import annotations

import json
import math
import random
import threading
from pathlib import Path

import numpy as np
import pytest

from deepcanon.runs.log_lines import log_lines
from deepcanon.studio.columns import BLOCKS, Columns, cache_of, parse, throw_away, update
from deepcanon.studio.reader import Reader
from tests.studio.made import epoch, make_run, step


def held(columns: Columns, kind: str, name: str) -> list[float]:
    return [float(value) for value in columns.values(kind, name)]


def test_a_log_that_grows_is_read_on_and_one_that_was_cut_anew(tmp_path: Path) -> None:
    values = [random.Random(0).random() for _ in range(100)]
    records = [step(n + 1, value) for n, value in enumerate(values)]
    content, cache = log_lines(records, 0)[0], tmp_path / "cache"
    lines = content.splitlines(keepends=True)
    log = tmp_path / "log.jsonl"
    generations = set()
    for count in (0, 1, 7, 40, 100):
        log.write_bytes(b"".join(lines[:count]) + (b'{"kind": "st' if count < 100 else b""))  # a torn last line
        columns = update(log, cache)
        generations.add(columns.generation)
        if count:
            np.testing.assert_allclose(held(columns, "step", "loss"), values[:count], rtol=1e-6)
            assert held(columns, "step", "step") == list(range(1, count + 1))
            assert columns.kinds["step"].ranges["step"] == (1.0, float(count))
    assert len(generations) == 1
    # Cut to half and grown past its old end with other numbers, as a resume with another version might.
    other = log_lines([step(n + 1, 2.0) for n in range(50, 120)], 0)[0]
    log.write_bytes(b"".join(lines[:50]) + other)
    columns = update(log, cache)
    assert columns.generation not in generations
    assert held(columns, "step", "loss")[50:] == [2.0] * 70
    assert [each.name for each in cache.iterdir() if each.is_dir()] == [columns.generation]


@pytest.mark.parametrize("size", BLOCKS)
def test_blocks_are_those_of_the_values(tmp_path: Path, size: int) -> None:
    random_numbers = random.Random(1)
    records = [step(n + 1, random_numbers.gauss(0, 1)) for n in range(10 * size + 5)]
    for record in records[20:60]:
        del record["grad_norm"]
    log = tmp_path / "log.jsonl"
    content = log_lines(records, 0)[0].splitlines(keepends=True)
    for end in (3, 17, 50, 51, 120, len(content)):  # appended in pieces that are no whole blocks
        log.write_bytes(b"".join(content[:end]))
        columns = update(log, tmp_path / "cache")
    for name in ("loss", "grad_norm"):
        values = np.full((11, size), np.nan, np.float32)
        values.ravel()[: len(records)] = held(columns, "step", name)  # the last block is not full
        low, high, total, count = columns.blocks("step", name, size).T
        filled = np.where(np.isnan(values), np.inf, values).min(1)
        np.testing.assert_array_equal(low, np.where(np.isinf(filled), np.nan, filled))
        np.testing.assert_array_equal(count, (~np.isnan(values)).sum(1))
        np.testing.assert_allclose(total, np.nansum(values, 1), rtol=1e-5, atol=1e-6)
        assert np.nanmax(high) == np.nanmax(values)
    assert list(columns.blocks("step", "step", size)[:, 0]) == [1 + size * n for n in range(11)]


def test_a_term_that_comes_later_has_gaps_before_it(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(log_lines([step(1, 0.5), step(2, 0.5)], 0)[0])
    update(log, tmp_path / "cache")
    with log.open("ab") as file:
        file.write(log_lines([step(3, 0.5, terms={"nll": 0.25, "kl": 0.25}), epoch(3, nll=0.7)], 0)[0])
    columns = update(log, tmp_path / "cache")
    assert [math.isnan(value) for value in held(columns, "step", "terms.kl")] == [True, True, False]
    np.testing.assert_allclose(held(columns, "epoch", "valid.nll"), [0.7], rtol=1e-6)


def test_damaged_lines_and_unknown_records_are_left_out() -> None:
    good = log_lines([step(1, 0.5), epoch(1, nll=0.1), step(2, 0.25)], 0)[0].splitlines()
    strange = [b"", b"{", b"null", b"[1]", b'{"kind": "step"}', b'{"kind": "step", "step": "x", "seconds": 1}',
               json.dumps({"kind": "picture", "step": 1, "name": "x", "seconds": 0}).encode(), b"\xff\xfe"]  # fmt: skip
    for lines in (good, [*good, *strange], [good[0], *strange, *good[1:]]):
        found = parse(b"\n".join(lines))
        assert list(found["step"]["loss"]) == [0.5, 0.25]
        assert list(found["epoch"]["valid.nll"]) == [0.1]


def test_a_whole_number_among_others_and_a_value_that_is_not_finite_are_read() -> None:
    lines = [step(1, 1), step(2, 0.5), {**step(3, 0.5), "loss": None}]
    np.testing.assert_array_equal(parse(log_lines(lines, 0)[0])["step"]["loss"], [1.0, 0.5, math.nan])


def test_columns_that_were_damaged_are_made_anew(tmp_path: Path) -> None:
    log, cache = tmp_path / "log.jsonl", tmp_path / "cache"
    log.write_bytes(log_lines([step(1, 0.5)], 0)[0])
    update(log, cache)
    for damage in (b"", b"{", b"[]", b'{"kinds": 3}'):
        (cache / "head.json").write_bytes(damage)
        assert Columns.open(cache) is None
        assert held(update(log, cache), "step", "loss") == [0.5]


def test_old_columns_are_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(log_lines([step(1, 0.5)], 0)[0])
    update(log, tmp_path / "caches" / "a")
    throw_away(tmp_path / "caches")
    assert (tmp_path / "caches" / "a").exists()
    now = (tmp_path / "caches" / "a" / "head.json").stat().st_mtime
    monkeypatch.setattr("deepcanon.studio.columns.time.time", lambda: now + 31 * 86400)
    throw_away(tmp_path / "caches")
    assert not (tmp_path / "caches" / "a").exists()


def test_a_process_of_its_own_reads_them_and_is_started_again(tmp_path: Path) -> None:
    news = threading.Semaphore(0)
    done: list[str] = []

    def told(id: str) -> None:
        done.append(id)
        news.release()

    reader = Reader(tmp_path / "caches", told)
    run = make_run(tmp_path / "run", [step(1, 0.5)])
    try:
        reader.want("a", run)
        assert news.acquire(timeout=60)
        columns = Columns.open(cache_of(run, tmp_path / "caches"))
        assert columns is not None
        assert held(columns, "step", "loss") == [0.5]
        assert reader._process is not None
        reader._process.kill()
        reader._process.wait()
        reader.want("the same", run)
        reader.want("gone", tmp_path / "gone")
        assert news.acquire(timeout=60)
        with (run / "log.jsonl").open("ab") as log:
            log.write(log_lines([step(2, 0.25)], 0)[0])
        reader.want("b", run)
        assert news.acquire(timeout=60)
    finally:
        reader.close()
    assert done == ["a", "gone", "b"]  # of a log without news nothing is told


def test_what_is_no_record_is_left_out_and_a_number_beyond_floats_is_a_gap() -> None:
    odd = ['{"kind": "step"}', "[1", "2]", '{"kind": "step", "step": true, "seconds": 1}', "NaN", '{"kind": 3}']
    good = [json.dumps(step(n, n / 8)) for n in range(1, 4)]
    huge = json.dumps(step(4, 0.5)).replace("0.5", "9" * 400)
    for lines in (good, [*odd, *good], [good[0], *odd, *good[1:]]):
        found = parse("\n".join(lines).encode())["step"]
        assert list(found["loss"]) == [n / 8 for n in range(1, 4)]
    found = parse("\n".join([*good, huge]).encode())["step"]
    assert list(found["step"]) == [1, 2, 3, 4]
    assert math.isnan(found["loss"][3])
