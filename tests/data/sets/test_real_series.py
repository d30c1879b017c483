"""The published series, on small files written here and served on this machine, and the real ones where they are."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepcanon.core import DataError
from deepcanon.data import Dataset, load_data
from deepcanon.data.download import Remote
from deepcanon.data.entry import Entry
from deepcanon.data.sets.real_series import (
    DAILY,
    DAILY_TESTS,
    DAYS,
    ETTH1,
    EXCHANGE_RATE,
    HOURS,
    M4_WEEKLY,
    WEEKLY,
    WEEKS,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, bytes]]]:
    """A server's address, and the files it has, by path."""
    monkeypatch.setenv("no_proxy", "*")
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in files:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(files[self.path])))
            self.end_headers()
            self.wfile.write(files[self.path])

        def log_message(self, format: str, *args: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}/", files
    http.shutdown()
    http.server_close()
    thread.join()


def like(known: Entry, contents: list[bytes], mirror: str = "") -> Entry:
    """An entry like the known one whose files hold this."""
    files = tuple(
        replace(file, size=len(content), sha256=hashlib.sha256(content).hexdigest())
        for file, content in zip(known.remote.files, contents, strict=True)
    )
    return replace(known, remote=Remote(known.remote.folder, (mirror,), files))


def m4_files(lengths: list[int]) -> tuple[list[bytes], list[list[float]]]:
    """The two files of the competition as it writes them, and all values of the series."""
    rows = [[round(100 * number + step + 0.25, 2) for step in range(n)] for number, n in enumerate(lengths)]

    def file(parts: list[list[float]]) -> bytes:
        width = max(map(len, parts))
        lines = [",".join(f'"V{place + 1}"' for place in range(width + 1))]
        for number, part in enumerate(parts):
            cells = [f'"W{number + 1}"', *(f'"{value}"' for value in part), *[""] * (width - len(part))]
            lines.append(",".join(cells))
        return "\n".join(lines).encode()

    return [file([row[:-WEEKLY] for row in rows]), file([row[-WEEKLY:] for row in rows])], rows


def test_m4_is_downloaded_from_its_places_and_the_published_test_is_the_test(
    folder: Path, served: tuple[str, dict[str, bytes]]
) -> None:
    mirror, files = served
    contents, rows = m4_files([95, 200, 146])
    files |= {"/Train/Weekly-train.csv": contents[0], "/Test/Weekly-test.csv": contents[1]}
    entry = like(M4_WEEKLY, contents, mirror)
    data: Dataset[Any] = entry.load(entry)
    assert (folder / "timeseries" / "m4_Weekly-train.csv").read_bytes() == contents[0]
    assert data.test is not None
    assert data.valid is not None
    for split, end in ((data.test, None), (data.valid, -WEEKLY)):
        wanted = [row[len(row) - WEEKS - WEEKLY + (end or 0) : end] for row in rows]
        torch.testing.assert_close(split.x.squeeze(2), torch.tensor(wanted))
        assert split.origins.tolist() == [WEEKS] * 3
    assert float(data.train.x.max()) <= max(row[-2 * WEEKLY - 1] for row in rows)


def test_compressed_files_will_do_and_others_are_refused(folder: Path) -> None:
    contents, rows = m4_files([95, 120])
    entry = like(M4_WEEKLY, contents)
    (folder / "timeseries").mkdir()
    for file, content in zip(entry.remote.files, contents, strict=True):
        (folder / "timeseries" / f"{file.name}.gz").write_bytes(gzip.compress(content))
    data: Dataset[Any] = entry.load(entry)
    assert data.test is not None
    assert data.test.x[1, -1, 0] == rows[1][-1]
    path = folder / "timeseries" / "m4_Weekly-test.csv.gz"
    path.write_bytes(gzip.compress(contents[1] + b"0"))
    with pytest.raises(DataError, match=r"m4_Weekly-test.csv.gz is damaged"):
        entry.load(entry)
    path.write_bytes(b"not compressed")
    with pytest.raises(DataError, match="not a readable gzip file"):
        entry.load(entry)
    broken = [contents[0].replace(b'"100.25"', b'"many"'), contents[1]]
    for file, content in zip(entry.remote.files, broken, strict=True):
        (folder / "timeseries" / f"{file.name}.gz").write_bytes(gzip.compress(content))
    entry = like(M4_WEEKLY, broken)
    with pytest.raises(DataError, match=r"not a number: .*'many'"):
        entry.load(entry)


def test_currencies_are_series_of_their_own(folder: Path, served: tuple[str, dict[str, bytes]]) -> None:
    mirror, files = served
    steps = DAYS + (1 + 2 * DAILY_TESTS) * DAILY
    table = np.arange(steps * 8).reshape(steps, 8) / 8
    content = gzip.compress("\n".join(",".join(f"{value:.6f}" for value in row) for row in table).encode())
    files["/exchange_rate.txt.gz"] = content
    entry = like(EXCHANGE_RATE, [content], mirror)
    data: Dataset[Any] = entry.load(entry)
    assert data.test is not None
    assert data.test.statics is not None
    assert data.test.statics.flatten().tolist() == [row for row in range(8) for _ in range(DAILY_TESTS)]
    last = data.test.x[DAILY_TESTS - 1 :: DAILY_TESTS, -1, 0]
    torch.testing.assert_close(last, torch.from_numpy(table[-1]).float())
    assert len(data.train) == 8


def test_ett_has_the_usual_borders_and_the_phases_of_day_and_week(
    folder: Path, served: tuple[str, dict[str, bytes]]
) -> None:
    mirror, files = served
    hours = 14400
    lines = [
        "date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT",
        *(f"2016-07-01 00:00:00,{h},0,0,0,0,0,{-h}" for h in range(hours)),
    ]
    content = "\n".join(lines).encode()
    files["/ETTh1.csv"] = content
    entry = like(ETTH1, [content], mirror)
    data: Dataset[Any] = entry.load(entry)
    assert data.valid is not None
    assert data.test is not None
    assert (len(data.train), len(data.valid), len(data.test)) == ETTH1.counts
    predicted = data.valid.x[:, HOURS:, 0].flatten()
    assert torch.equal(predicted, torch.arange(8640.0, 11520.0))
    assert float(data.train.x.max()) < 8640
    assert torch.equal(data.test.x[:, HOURS:, 0].flatten(), torch.arange(11520.0, 14400.0))
    known = data.train.covariates
    assert known is not None
    torch.testing.assert_close(known[0, :24, :2], known[0, 24:48, :2], rtol=0, atol=1e-4)
    short = like(ETTH1, ["\n".join(lines[:100]).encode()], mirror)
    files["/ETTh1.csv"] = "\n".join(lines[:100]).encode()
    (folder / "timeseries" / "ETTh1.csv").unlink()
    with pytest.raises(DataError, match="has 99 hours; 14400 are needed"):
        short.load(short)


@pytest.mark.parametrize("entry", [M4_WEEKLY, EXCHANGE_RATE, ETTH1], ids=lambda entry: entry.name)
def test_the_published_files_give_what_the_entry_says(entry: Entry) -> None:
    if not entry.remote.here():
        pytest.skip(f"the files of {entry.name} are not here; set DEEPCANON_DATA")
    data: Dataset[Any] = load_data(entry.name)
    assert data.valid is not None
    assert data.test is not None
    assert (len(data.train), len(data.valid), len(data.test)) == entry.counts
    assert tuple(data.test.x.shape[1:]) == entry.shape
    for split in (data.train, data.valid, data.test):
        assert bool(split.x.isfinite().all())
    known = {"m4-weekly": (0, 34066.95), "exchange-rate": (4, 0.720825)}
    if entry.name in known:
        row, last = known[entry.name]
        assert float(data.test.x[row, -1, 0]) == pytest.approx(last, rel=1e-5)
