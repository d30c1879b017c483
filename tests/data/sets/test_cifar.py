"""The CIFAR family, on small archives written here and served on this machine, and on real images where they are."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from deepcanon.core import DataError
from deepcanon.data import load_data
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.entry import Entry
from deepcanon.data.sets.cifar import CIFAR10, CIFAR10_SMALL, CIFAR100, load, load_small

NAMES = {
    "cifar10": [
        f"cifar-10-batches-bin/{part}.bin" for part in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")
    ],
    "cifar100": ["cifar-100-binary/train.bin", "cifar-100-binary/test.bin"],
}


def images(count: int, seed: int) -> NDArray[np.uint8]:
    """Images as one looks at them, (N, height, width, color)."""
    return np.random.default_rng(seed).integers(256, size=(count, 32, 32, 3), dtype=np.uint8)


def record(image: NDArray[np.uint8], labels: bytes) -> bytes:
    """As the author describes it: the labels, then the red, the green and the blue plane, each row by row."""
    return labels + b"".join(image[:, :, color].tobytes() for color in range(3))


def archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def small(known: Entry, content: bytes, mirrors: tuple[str, ...] = ()) -> Entry:
    """An entry like the known one whose archive is this one: 100 images that are known, 20 that test."""
    (file,) = known.remote.files
    file = RemoteFile(file.name, len(content), hashlib.sha256(content).hexdigest())
    return replace(known, counts=(90, 10, 20), remote=Remote(known.remote.folder, mirrors, (file,)))


def made(name: str) -> tuple[NDArray[np.uint8], bytes]:
    """120 images, the i-th of class i mod 10, and the archive that holds them."""
    pictures, labels = images(120, seed=0), [bytes([i % 10]) for i in range(120)]
    if name == "cifar100":
        labels = [bytes([19 - i % 20, i % 10]) for i in range(120)]  # the coarse class comes first
    records = [record(*pair) for pair in zip(pictures, labels, strict=True)]
    ends = [20, 40, 60, 80, 100, 120] if name == "cifar10" else [100, 120]
    parts = [b"".join(records[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    return pictures, archive(dict(zip(NAMES[name], parts, strict=True)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, bytes], list[str]]]:
    """A server's address, the files it has, by path, and where the answers began."""
    monkeypatch.setenv("no_proxy", "*")
    files: dict[str, bytes] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Range', 'whole')}")
            if self.path not in files:
                self.send_error(404)
                return
            span = self.headers.get("Range")
            start = int(span.removeprefix("bytes=").removesuffix("-")) if span else 0
            body = files[self.path]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            self.wfile.write(body[start:])

        def log_message(self, format: str, *args: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", files, asked
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.mark.parametrize("known", [CIFAR10, CIFAR100], ids=lambda entry: entry.name)
def test_the_parts_hold_the_images_of_the_archive(
    known: Entry, folder: Path, served: tuple[str, dict[str, bytes], list[str]]
) -> None:
    address, files, asked = served
    pictures, content = made(known.name)
    name = known.remote.files[0].name
    files[f"/second/{name}"] = content
    begun = folder / known.name / f"{name}.part"  # an earlier attempt broke off here
    begun.parent.mkdir()
    begun.write_bytes(content[:1000])
    data = load(small(known, content, (f"{address}/first/", f"{address}/second/")))
    assert asked == [f"/first/{name} bytes=1000-", f"/second/{name} bytes=1000-"]
    test = data.split("test")
    expected = torch.from_numpy(pictures[100:]).permute(0, 3, 1, 2).float() / 255
    assert torch.equal(test.x, expected)
    assert test.y.tolist() == [i % 10 for i in range(100, 120)]
    assert data.train.y.bincount().tolist() == [9] * 10
    assert data.split("valid").y.bincount().tolist() == [1] * 10
    classes = {picture.tobytes(): i % 10 for i, picture in enumerate(pictures[:100])}
    for part in (data.train, data.split("valid")):
        for x, y in zip((part.x * 255).round().to(torch.uint8).permute(0, 2, 3, 1), part.y.tolist(), strict=True):
            assert classes.pop(x.contiguous().numpy().tobytes()) == y
    assert not classes


def test_the_pickled_archive_and_a_damaged_one_are_refused(folder: Path) -> None:
    (folder / "cifar10").mkdir()
    path = folder / "cifar10" / "cifar-10-binary.tar.gz"
    _, right = made("cifar10")
    for content, words in (
        (archive({"cifar-10-batches-py/data_batch_1": b"\x80\x02"}), "is not an archive with .*data_batch_1.bin"),
        (b"no archive at all", "is not an archive with"),
        (right[: len(right) // 2], "is not an archive with"),
        (archive(dict.fromkeys(NAMES["cifar10"], b"short")), "images take 3073 bytes each in .* which have 25"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            load(small(CIFAR10, content))
    path.write_bytes(right)
    with pytest.raises(DataError, match="is damaged: its SHA-256"):
        load(CIFAR10)


def test_other_counts_and_classes_than_the_published_are_refused(folder: Path) -> None:
    (folder / "cifar10").mkdir()
    _, content = made("cifar10")
    (folder / "cifar10" / "cifar-10-binary.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match="must have 101 and 20 images of classes below 10; got 100 and 20"):
        load(replace(small(CIFAR10, content), counts=(91, 10, 20)))
    with pytest.raises(DataError, match=r"classes below 9; .* up to 9"):
        load(replace(small(CIFAR10, content), labels=CIFAR10.labels[:9]))


def test_the_published_archives_are_the_binary_ones() -> None:
    for entry, classes in ((CIFAR10, 10), (CIFAR100, 100)):
        assert [file.name.endswith("-binary.tar.gz") for file in entry.remote.files] == [True]
        assert len(entry.remote.mirrors) >= 2
        assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in entry.remote.mirrors)
        assert len(set(entry.labels)) == classes
        assert list(entry.labels) == sorted(entry.labels)  # its author numbers the classes by the alphabet


def test_a_missing_small_set_is_an_error_that_says_where_to_put_it(folder: Path) -> None:
    with pytest.raises(DataError, match=rf"put cifar10_small\.npz into {folder / 'cifar10'} .* or take cifar10"):
        load_data("cifar10-small")


def test_the_small_set_turns_the_colors_into_channels(folder: Path) -> None:
    (folder / "cifar10").mkdir()
    path = folder / "cifar10" / "cifar10_small.npz"
    pictures, classes = images(120, seed=1), np.arange(120, dtype=np.uint8) % 10
    np.savez(path, x_train=pictures[:100], y_train=classes[:100], x_test=pictures[100:], y_test=classes[100:])
    data = load_small(small(CIFAR10_SMALL, path.read_bytes()))
    assert torch.equal(data.split("test").x, torch.from_numpy(pictures[100:]).permute(0, 3, 1, 2).float() / 255)
    assert data.split("test").y.tolist() == classes[100:].tolist()


@pytest.mark.skipif(not CIFAR10_SMALL.remote.here(), reason="the file is not on this machine; set DEEPCANON_DATA")
def test_the_real_small_set() -> None:
    data = load_data("cifar10-small")
    assert [part.y.bincount().tolist() for part in (data.train, data.split("valid"), data.split("test"))] == [
        [360] * 10, [40] * 10, [100] * 10,
    ]  # fmt: skip
    # The means of red, green and blue over the whole training split, as everyone quotes them; this is a sample of it.
    means = torch.cat([data.train.x, data.split("valid").x]).mean((0, 2, 3))
    torch.testing.assert_close(means, torch.tensor([0.4914, 0.4822, 0.4465]), rtol=0, atol=0.01)
