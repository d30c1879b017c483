"""Images named by a table: with classes, with numbers, without labels, the whole way as a user would."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from tests.data.text.test_labeled_text import call, refused


def images(folder: Path, count: int = 20) -> Path:
    """Images of 6x6 pixels, dark ones and bright ones, and the table that names them."""
    (folder / "pictures").mkdir()
    lines = ["id,File,tone,light"]
    for place in range(count):
        light = place * 255 // count
        Image.fromarray(np.full((6, 6), light, dtype=np.uint8)).save(folder / "pictures" / f"{place}.png")
        lines.append(f"{place},pictures/{place}.png,{'dark' if light < 128 else 'bright'},{light + 0.5}")
    (folder / "list.csv").write_text("\n".join(lines) + "\n")
    return folder / "list.csv"


def test_every_image_has_the_label_of_its_row(tmp_path: Path) -> None:
    path = images(tmp_path)
    classes, numbers = (dc.load_data(f"{path}:images", target=target) for target in ("tone", "light"))
    assert (classes.kind, classes.labels, classes.shape) == ("images", ("bright", "dark"), (1, 6, 6))
    assert classes.remarks == (f"Of {path}, the columns 'File' and 'tone' are read, and not id, light.",)
    for part in (classes.train, classes.split("valid"), classes.split("test")):
        light = part.x.mean((1, 2, 3)) * 255
        assert torch.equal(light < 128, part.y == 1)
    target = numbers.preprocessing["target"]
    train: Any = numbers.train
    torch.testing.assert_close(
        train.y[:, 0] * target["std"] + target["mean"], train.x.mean((1, 2, 3)) * 255 + 0.5, atol=1e-3, rtol=0
    )
    assert type(dc.load_data(f"{path}:images").train) is Batch
    assert dc.load_data(f"{path}:images:size=4", target="tone").shape == (1, 4, 4)
    again = dc.load_data(classes.name, preprocessing=classes.preprocessing, target="tone")
    assert again.fingerprint() == classes.fingerprint()


@pytest.mark.slow
def test_the_whole_way_of_a_user(tmp_path: Path) -> None:
    path, run, out = images(tmp_path), tmp_path / "run", tmp_path / "out.csv"
    reading = ("--data", f"{path}:images", "--target", "light")
    call("train", "mlp", *reading, "--epochs", 60, "--out", run)
    call("evaluate", run)
    (tmp_path / "new.csv").write_text("file\npictures/19.png\npictures/2.png\n")
    call("predict", run, "--data", tmp_path / "new.csv", "--out", out)
    with out.open(newline="") as lines:
        first, second = csv.DictReader(lines)
    assert (first["file"], second["file"]) == ("pictures/19.png", "pictures/2.png")
    assert float(first["prediction"]) > 150 > 100 > float(second["prediction"])  # in the units of the table


def test_bad_files_are_named_with_what_to_do(tmp_path: Path) -> None:
    path = images(tmp_path)
    content = path.read_text()
    path.write_text(content.replace("pictures/3.png", "pictures/gone.png"))
    assert "line 5, column 'File': there is no image 'pictures/gone.png'" in refused(
        "train", "mlp", "--data", f"{path}:images", "--target", "tone", "--out", tmp_path / "run"
    )
    assert not (tmp_path / "run").exists()
    path.write_text(content.replace("File", "what"))
    with pytest.raises(
        UsageError, match="names images in a column called path, file, image or filename; it has id, what"
    ):
        dc.load_data(f"{path}:images", target="tone")
    path.write_text(content.replace("pictures/0.png,dark", "pictures/0.png,"))
    with pytest.raises(DataError, match="line 2, column 'tone': the target is missing"):
        dc.load_data(f"{path}:images", target="tone")
