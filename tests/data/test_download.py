"""Downloads from a server on this machine that can fail in every way a mirror fails."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from deepcanon.core import DataError, DownloadError
from deepcanon.data.download import Remote, RemoteFile, data_folders, download, sha256_of

CONTENT = np.random.default_rng(0).bytes(600_000)
ENDLESS = 100
FILE = RemoteFile("data.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@dataclass
class Server:
    """Mirrors on this machine, each a folder whose name says how it behaves, and what was asked of them."""

    address: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    written: int = 0
    """How many times too often an endless answer held the content."""

    def mirror(self, behavior: str) -> str:
        return f"{self.address}/{behavior}/"


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            behavior = self.path.split("/")[1]
            span = self.headers.get("Range")
            server.asked.append((behavior, span))
            if behavior == "absent":
                self.send_error(404)
                return
            if behavior == "silent":
                self.connection.close()
                return
            if behavior == "slow":
                time.sleep(0.2)
            start = int(span.removeprefix("bytes=").removesuffix("-")) if span and behavior != "deaf" else 0
            body = CONTENT[start:]
            if behavior == "altered":
                body = body[:-1] + bytes([body[-1] ^ 1])
            if behavior == "short":  # a whole answer, of another file
                body = body[: len(body) // 2]
            self.send_response(206 if start else 200)
            if start:
                claimed = start + 1 if behavior == "elsewhere" else start
                self.send_header("Content-Range", f"bytes {claimed}-{len(CONTENT) - 1}/{len(CONTENT)}")
            if behavior not in ("unsaid", "endless"):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if behavior in ("cut", "unsaid"):
                body = body[: len(body) // 2]
            self.wfile.write(body)
            if behavior == "endless":
                with suppress(ConnectionError):  # the other side has had enough
                    for _ in range(ENDLESS):
                        self.wfile.write(CONTENT)
                        server.written += 1

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler(server))
    server.address = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    http.shutdown()
    http.server_close()
    thread.join()


def test_a_good_mirror_gives_the_file_and_nothing_else(server: Server, tmp_path: Path) -> None:
    path = download(FILE, (server.mirror("good"),), tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert os.listdir(path.parent) == ["data.gz"]
    assert server.asked == [("good", None)]


@pytest.mark.parametrize("bad", ["absent", "silent", "altered", "short", "endless"])
def test_a_bad_mirror_alone_ends_in_an_error_and_leaves_nothing(server: Server, tmp_path: Path, bad: str) -> None:
    with pytest.raises(
        DownloadError, match=rf"data\.gz could not be downloaded \(http.*/{bad}/data\.gz: .*put the file"
    ):
        download(FILE, (server.mirror(bad),), tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("absent", "HTTP 404"),
        ("altered", "SHA-256 is wrong"),
        ("endless", "SHA-256 is wrong"),
        ("short", "it has 300000 bytes instead of 600000"),
        ("cut", "it stopped after 300000 of 600000 bytes"),
        ("unsaid", "it stopped after 300000 of 600000 bytes"),
    ],
)
def test_the_error_says_what_each_mirror_did(server: Server, tmp_path: Path, bad: str, reason: str) -> None:
    with pytest.raises(DownloadError, match=reason):
        download(FILE, (server.mirror(bad),), tmp_path)
    assert not (tmp_path / "data.gz").exists()


@pytest.mark.parametrize("bad", ["absent", "silent", "altered", "short", "endless", "cut", "unsaid"])
def test_the_next_mirror_steps_in(server: Server, tmp_path: Path, bad: str) -> None:
    path = download(FILE, (server.mirror(bad), server.mirror("good")), tmp_path)
    assert path.read_bytes() == CONTENT
    assert os.listdir(tmp_path) == ["data.gz"]


def test_an_endless_answer_is_cut_off(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError):
        download(FILE, (server.mirror("endless"),), tmp_path)
    assert server.written < ENDLESS


def test_a_port_where_nobody_listens_is_a_bad_mirror(server: Server, tmp_path: Path) -> None:
    path = download(FILE, ("http://127.0.0.1:9/", server.mirror("good")), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_broken_download_is_resumed_where_it_stopped(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError):
        download(FILE, (server.mirror("cut"),), tmp_path)
    assert os.listdir(tmp_path) == ["data.gz.part"]
    assert (tmp_path / "data.gz.part").read_bytes() == CONTENT[:300_000]
    assert download(FILE, (server.mirror("good"),), tmp_path).read_bytes() == CONTENT
    assert server.asked == [("cut", None), ("good", "bytes=300000-")]
    assert os.listdir(tmp_path) == ["data.gz"]


def test_every_attempt_brings_the_file_nearer(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="after 525000 of 600000 bytes"):
        download(FILE, (server.mirror("cut"),) * 3, tmp_path)
    assert [span for _, span in server.asked] == [None, "bytes=300000-", "bytes=450000-"]


def test_a_server_that_knows_no_ranges_begins_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.gz.part").write_bytes(CONTENT[:1000])
    assert download(FILE, (server.mirror("deaf"),), tmp_path).read_bytes() == CONTENT
    assert server.asked == [("deaf", "bytes=1000-")]


def test_another_range_than_asked_for_is_not_taken(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.gz.part").write_bytes(CONTENT[:1000])
    with pytest.raises(DownloadError, match="from 1000 on, it sends bytes 1001-"):
        download(FILE, (server.mirror("elsewhere"),), tmp_path)
    assert (tmp_path / "data.gz.part").read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize("part", [b"rubbish", b"\0" * 600_000, b"\0" * 600_001])
def test_a_wrong_beginning_is_thrown_away(server: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "data.gz.part").write_bytes(part)
    assert download(FILE, (server.mirror("good"),), tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == ("good", None)


def test_a_complete_beginning_needs_no_server(tmp_path: Path) -> None:
    (tmp_path / "data.gz.part").write_bytes(CONTENT)
    assert download(FILE, ("http://127.0.0.1:9/",), tmp_path).read_bytes() == CONTENT


def test_a_full_disk_is_named(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DownloadError, match=r"cannot write to .*: No space left on device; make room"):
        download(FILE, (server.mirror("good"),), tmp_path)
    assert not (tmp_path / "data.gz").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"cannot write to .*file/folder"):
        download(FILE, ("http://127.0.0.1:9/",), tmp_path / "file" / "folder")


def test_two_at_once_download_once(server: Server, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(download, FILE, (server.mirror("slow"),), tmp_path) for _ in range(2)]
        assert [job.result().read_bytes() == CONTENT for job in jobs] == [True, True]
    assert server.asked == [("slow", None)]


def test_files_are_looked_for_in_both_folders(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DEEPCANON_DATA", raising=False)
    remote = Remote("things", (server.mirror("good"),), (FILE,))
    assert data_folders() == [tmp_path / "cache" / "deepcanon"]
    assert not remote.here()
    (path,) = remote.fetch()
    assert path == tmp_path / "cache" / "deepcanon" / "things" / "data.gz"
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path / "chosen"))
    assert remote.here()
    assert remote.fetch() == [path]
    path.unlink()
    assert remote.fetch() == [tmp_path / "chosen" / "things" / "data.gz"]
    assert len(server.asked) == 2


def test_the_cache_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("DEEPCANON_DATA", "~/data")
    assert data_folders() == [tmp_path / "data", tmp_path / ".cache" / "deepcanon"]


def test_a_damaged_file_is_named_and_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "data.gz").write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match=r"data\.gz is damaged: .* remove it to download it again"):
        Remote("things", ("http://127.0.0.1:9/",), (FILE,)).fetch()
    assert sha256_of(tmp_path / "things" / "data.gz") == hashlib.sha256(CONTENT[:-1]).hexdigest()
