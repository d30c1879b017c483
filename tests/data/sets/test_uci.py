"""The UCI sets: the files of a split are fetched and checked, an archive is read, and the splits are the published."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepcanon.core import DataError, UsageError
from deepcanon.data import load_data
from deepcanon.data.download import RemoteFile
from deepcanon.data.load import entries
from deepcanon.data.sets import uci
from deepcanon.data.tables.table import in_original_units, original_rows

TABLE = np.column_stack([np.arange(30.0), 100 - np.arange(30.0), np.arange(30.0) % 7])
"""Two inputs and, as the last column, the target."""


def texts() -> dict[str, str]:
    """The files of the yachts, as small ones; of the last split other rows test than of the first."""
    found = {"data": "\n".join(" ".join(map(str, row)) for row in TABLE), "index_features": "0\n1", "index_target": "2"}
    for split in (0, 19):
        rows = np.roll(np.arange(30), split)
        for part, some in (("train", rows[:20]), ("test", rows[20:])):
            found[f"index_{part}_{split}"] = "\n".join(f"{row}.0" for row in some)
    return {f"yacht/data/{name}.txt": text for name, text in found.items()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the data without any, and small files in place of the published ones."""
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small = {
        name: RemoteFile(name, len(text), hashlib.sha256(text.encode()).hexdigest()) for name, text in texts().items()
    }
    monkeypatch.setattr(uci, "_published", lambda: small)
    return tmp_path / "data"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of this machine that has these files."""
    monkeypatch.setenv("no_proxy", "*")
    for name, text in texts().items():
        path = tmp_path / "served" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path / "served"))

        def log_message(self, format: str, *args: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}/"
    http.shutdown()
    http.server_close()
    thread.join()


def units(data: Any, part: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a split and their targets in the units of the files."""
    rows = data.split(part)
    x = np.column_stack(list(original_rows(rows.x.double(), data.preprocessing).values()))
    return x, in_original_units(rows.y.double(), data.preprocessing)[:, 0].numpy()


def check(data: Any, split: int) -> None:
    tested = np.sort(np.roll(np.arange(30), split)[20:])
    x, y = units(data, "test")
    order = np.argsort(x[:, 0])
    np.testing.assert_allclose(np.column_stack([x, y])[order], TABLE[tested], atol=1e-4)
    known = np.concatenate([units(data, part)[0][:, 0] for part in ("train", "valid")]).round()
    assert sorted(known) == sorted(set(range(30)) - set(tested))
    assert [len(data.split(part)) for part in ("train", "valid", "test")] == [18, 2, 10]
    assert torch.allclose(data.train.x.mean(0), torch.zeros(2), atol=1e-5)


def test_a_split_is_downloaded_and_kept(folder: Path, served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(uci.YACHT.remote), "mirrors", (served,))
    data = load_data("uci:yacht:split=19")
    check(data, 19)
    assert (data.name, data.source) == ("uci:yacht:split=19", uci.YACHT.source)
    kept = sorted(path.name for path in (folder / "uci-regression" / "yacht" / "data").iterdir())
    assert kept == ["data.txt", "index_features.txt", "index_target.txt", "index_test_19.txt", "index_train_19.txt"]
    check(load_data("uci:yacht"), 0)
    (folder / "uci-regression" / "yacht" / "data" / "data.txt").write_text("1 2 3")
    with pytest.raises(DataError, match="is damaged: its SHA-256"):
        load_data("uci:yacht")


def test_an_archive_is_read_and_a_wrong_one_refused(folder: Path) -> None:
    (folder / "uci-regression").mkdir(parents=True)
    path = folder / "uci-regression" / uci.ARCHIVE

    def pack(changed: dict[str, str]) -> None:
        with tarfile.open(path, "w:xz") as packed:
            for name, text in {**texts(), **changed}.items():
                member = tarfile.TarInfo(f"{uci.ROOT}/{name}")
                member.size = len(text)
                packed.addfile(member, io.BytesIO(text.encode()))

    pack({})
    check(load_data("uci:yacht"), 0)
    pack({"yacht/data/index_target.txt": "1"})
    with pytest.raises(DataError, match=r"is damaged: the SHA-256 of its yacht/data/index_target\.txt"):
        load_data("uci:yacht")
    for content in (b"", b"no archive"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="is not an archive with yacht/data/data"):
            load_data("uci:yacht")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("uci:yacht:split=20", "has 20 published splits, 0 to 19; got 20"),
        ("uci:yacht:split=x", "is chosen once and first"),
        ("uci:yacht:split=1:split=2", "is chosen once and first"),
        ("uci", "are several data sets: uci:boston, .* say which"),
        ("uci:bosten", "are several data sets"),
        ("moons:split=1", "there is no form 'split=1' of moons"),
    ],
)
def test_a_split_that_is_not_there_is_said_before_a_download(name: str, words: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=words):
        load_data(name)
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.skipif(not uci.YACHT.remote.here(), reason="the UCI sets are not on this machine; set DEEPCANON_DATA")
def test_the_published_splits() -> None:
    for name in ("uci:yacht", "uci:wine-red", "uci:energy"):
        entry = entries()[name]
        data = load_data(f"{name}:split={entry.splits - 1}")
        assert tuple(len(data.split(part)) for part in ("train", "valid", "test")) == entry.counts
        assert data.shape == entry.shape == tuple(data.train.x.shape[1:])
    x, y = zip(*(units(load_data("uci:boston"), part) for part in ("train", "valid", "test")), strict=True)
    prices = np.concatenate(y)
    assert (len(prices), prices.min().round(3), prices.max().round(3)) == (506, 5.0, 50.0)  # as is known of them
    assert np.concatenate(x).shape == (506, 13)
