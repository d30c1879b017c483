"""Arrays of NumPy in files: rows and images, with the splits that they name, and never a Python object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError, UsageError
from deepcanon.data import load_rows
from tests.data.text.test_labeled_text import call, refused

RANDOM = np.random.RandomState(0)
ROWS, CLASSES = RANDOM.rand(50, 3).astype("float32"), np.arange(50) % 3
IMAGES = RANDOM.randint(0, 256, (20, 6, 5, 3)).astype("uint8")


def test_rows_are_split_by_class_and_kept_as_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=ROWS, Y=CLASSES)
    data = dc.load_data(tmp_path / "rows.npz")
    assert (data.kind, dict(data.sizes)) == ("table", {"features": 3, "classes": 3})
    parts: list[Any] = [data.split(name) for name in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [35, 5, 10]
    found = {(*x.tolist(), int(y)) for part in parts for x, y in zip(part.x, part.y, strict=True)}
    assert found == {(*x.tolist(), int(y)) for x, y in zip(ROWS, CLASSES, strict=True)}
    assert set(parts[2].y.tolist()) == {0, 1, 2}
    np.save(tmp_path / "rows.npy", ROWS)
    assert dc.load_data(tmp_path / "rows.npy").sizes == {"features": 3}


def test_images_of_bytes_become_numbers_with_the_channels_first(tmp_path: Path) -> None:
    np.savez(tmp_path / "images.npz", train_images=IMAGES, train_labels=CLASSES[:20, None], test_images=IMAGES[:4],
             test_labels=CLASSES[:4, None])  # fmt: skip
    data = dc.load_data(tmp_path / "images.npz")
    assert (data.kind, data.shape, len(data.split("test"))) == ("images", (3, 6, 5), 4)
    wanted = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).float() / 255
    torch.testing.assert_close(data.train.x, wanted)
    assert set(dc.load_data(f"{tmp_path / 'images.npz'}:binary").train.x.unique().tolist()) == {0.0, 1.0}
    np.save(tmp_path / "gray.npy", IMAGES[..., 0] / 255)
    assert dc.load_data(tmp_path / "gray.npy").shape == (1, 6, 5)
    with pytest.raises(UsageError, match="have no gray levels for ':binary'"):
        dc.load_data(f"{tmp_path / 'gray.npy'}:binary")


@pytest.mark.slow
def test_the_whole_way_of_a_user(tmp_path: Path) -> None:
    path, new, out = tmp_path / "rows.npz", tmp_path / "new.npy", tmp_path / "out.csv"
    np.savez(path, x=ROWS, y=CLASSES)
    np.save(new, ROWS[:4])
    call("train", "mlp", "--data", path, "--epochs", 2, "--out", tmp_path / "run")
    call("evaluate", tmp_path / "run", "--data", path)
    call("predict", tmp_path / "run", "--data", new, "--out", out)
    assert len(out.read_text().splitlines()) == 5
    call("compare", "mlp", "softmax_regression", "--data", path, "--out", tmp_path / "c", "--budget", 1)
    images: Any = load_rows(str(tmp_path / "new.npy"), {"shape": [3]})
    torch.testing.assert_close(images.x, torch.from_numpy(ROWS[:4]))


def test_bad_files_are_named_with_what_to_do(tmp_path: Path) -> None:
    objects, path = tmp_path / "objects.npy", tmp_path / "bad.npz"
    np.save(objects, np.array([{"a": 1}, print], dtype=object), allow_pickle=True)
    assert "objects.npy is not read as arrays of numbers: it holds Python objects" in refused(
        "train", "mlp", "--data", objects, "--out", tmp_path / "run"
    )
    assert not (tmp_path / "run").exists()
    np.savez(path, x=np.array([{"a": 1}], dtype=object), y=CLASSES)
    with pytest.raises(DataError, match="holds Python objects"):
        dc.load_data(path)
    for arrays, words in (
        ({"x": ROWS, "weights": ROWS}, "has an array 'weights'; arrays are named x and y"),
        ({"x": ROWS, "y": CLASSES[:3]}, "50 examples and 3 labels"),
        ({"y": CLASSES, "y_test": CLASSES}, "has no examples x of its (test|train) split"),
        ({"x": ROWS, "images": ROWS}, "has the x of its train split twice"),
        ({"x": np.array(["a", "b"] * 5)}, "x must hold numbers, got <U1"),
        ({"x": ROWS[:0]}, "x has no examples"),
        ({"x": ROWS[:3]}, "at least 5 are needed"),
        ({"x": ROWS * np.nan}, "NaN or infinite"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=words):
            dc.load_data(path)
    path.write_bytes(b"not this")
    with pytest.raises(DataError, match="is not read as arrays of numbers"):
        dc.load_data(path)
    with pytest.raises(DataError, match="there is no file"):
        dc.load_data(tmp_path / "gone.npy")


def test_test_examples_alone_are_never_trained_on_but_predicted(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))
    np.savez(tmp_path / "test.npz", x_test=rows)
    with pytest.raises(DataError, match="has only x_test, which nothing is trained on; name the training examples x"):
        dc.load_data(tmp_path / "test.npz")
    np.savez(tmp_path / "plain.npz", whatever=rows)
    known = dc.load_data(tmp_path / "plain.npz")
    assert torch.equal(load_rows(str(tmp_path / "test.npz"), known.preprocessing).x, torch.from_numpy(rows).float())
