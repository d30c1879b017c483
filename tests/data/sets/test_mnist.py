"""The MNIST family, on small files written here and on the real ones where they are."""

import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from deepcanon.core import DataError
from deepcanon.data import load_data
from deepcanon.data.download import Remote, RemoteFile
from deepcanon.data.entry import Entry
from deepcanon.data.sets.mnist import FASHION_MNIST, MNIST, load


def small(folder: Path, arrays: list[NDArray[np.uint8]]) -> Entry:
    """An entry like MNIST's whose files hold these arrays."""
    files = []
    for known, array in zip(MNIST.remote.files, arrays, strict=True):
        content = gzip.compress(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())
        (folder / "mnist").mkdir(exist_ok=True)
        (folder / "mnist" / known.name).write_bytes(content)
        files.append(RemoteFile(known.name, len(content), hashlib.sha256(content).hexdigest()))
    return replace(MNIST, counts=(90, 10, 20), remote=Remote("mnist", (), tuple(files)))


def arrays() -> list[NDArray[np.uint8]]:
    random = np.random.default_rng(0)
    images = [random.integers(256, size=(count, 28, 28), dtype=np.uint8) for count in (100, 20)]
    labels = [np.arange(10, dtype=np.uint8).repeat(count // 10) for count in (100, 20)]
    return [images[0], labels[0], images[1], labels[1]]


def test_the_parts_hold_the_published_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    content = arrays()
    data = load(small(tmp_path, content))
    assert torch.equal((data.split("test").x * 255).squeeze(1), torch.from_numpy(content[2]).float())
    assert torch.equal(data.split("test").y, torch.from_numpy(content[3]).long())
    assert data.train.y.bincount().tolist() == [9] * 10
    assert data.split("valid").y.bincount().tolist() == [1] * 10
    known = torch.cat([data.train.x, data.split("valid").x]).squeeze(1)
    rows = {image.numpy().tobytes() for image in (known * 255).round().to(torch.uint8)}
    assert rows == {image.tobytes() for image in content[0]}
    assert len(rows) == 100


@pytest.mark.parametrize("place", range(4))
def test_files_that_do_not_belong_together_are_refused(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    content = arrays()
    content[place] = content[place][:-1]
    with pytest.raises(DataError, match="mnist must have images of 28x28 pixels and as many labels"):
        load(small(tmp_path, content))


def test_a_label_beyond_the_classes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPCANON_DATA", str(tmp_path))
    content = arrays()
    content[3][-1] = 10
    with pytest.raises(DataError, match=r"labels below 10; .* up to 10"):
        load(small(tmp_path, content))


def test_both_sets_have_the_published_files() -> None:
    names = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
             "t10k-labels-idx1-ubyte.gz"]  # fmt: skip
    for entry in (MNIST, FASHION_MNIST):
        assert [file.name for file in entry.remote.files] == names
        assert len(entry.remote.mirrors) >= 2
        assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in entry.remote.mirrors)


@pytest.mark.slow
@pytest.mark.skipif(not MNIST.remote.here(), reason="the MNIST files are not on this machine; set DEEPCANON_DATA")
def test_the_real_mnist() -> None:
    data = load_data("mnist")
    assert [len(data.split(name)) for name in ("train", "valid", "test")] == [55000, 5000, 10000]
    known = torch.cat([data.train.y, data.split("valid").y])
    # The counts of the digits and the mean and standard deviation of the pixels that everyone quotes.
    assert known.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.split("test").y.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    pixels = torch.cat([data.train.x, data.split("valid").x])
    assert pixels.mean().item() == pytest.approx(0.1307, abs=5e-5)
    assert pixels.std().item() == pytest.approx(0.3081, abs=5e-5)
