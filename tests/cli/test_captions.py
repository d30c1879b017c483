"""Images captioned from the command line, those of a folder and of single files, and random captions of one."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import deepcanon as dc

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes") / "run"
    dc.Run.train("caption:hidden=4/4,units=8,embedding=8", "scenes", out=folder, quiet=True, steps=4)
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    test = dc.load_data("scenes").split("test")
    for row in range(3):
        pixels = (test.x[row, 0] * 255).round().to(torch.uint8).numpy()
        Image.fromarray(pixels).save(folder / f"{row}.png")
    Image.new("L", (8, 8)).save(folder.parent / "small.png")
    return folder


@pytest.mark.slow
def test_images_of_a_folder_are_captioned_as_those_of_files(
    call: Call, trained: Path, images: Path, tmp_path: Path
) -> None:
    out = tmp_path / "captions.csv"
    assert "3 predictions of caption" in call("predict", trained, "--data", images, "--out", out).stdout
    with out.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    files = sorted(images.iterdir())
    assert [row["prediction"] for row in rows] == dc.Run(trained).translate(*map(str, files))
    model = dc.Run(trained).model
    x = (dc.load_data("scenes").split("test").x[:3] * 255).round() / 255  # as a file holds them
    tokens, ends = model.translate(x)  # type: ignore[operator]
    wanted = model.log_prob(tokens, lengths=ends, context=x)  # type: ignore[operator]
    assert [float(row["log_prob"]) for row in rows] == pytest.approx(wanted.tolist(), rel=1e-5)


def test_a_file_is_captioned_and_random_captions_begin_as_they_are_told_to(
    call: Call, trained: Path, images: Path
) -> None:
    file = images / "0.png"
    found = call("translate", trained, file, "--beams", "3", "--json").json
    assert found["translations"] == dc.Run(trained).translate(str(file), beams=3)
    drawn = {call("generate", trained, "--given", file, "--steps", "6", "--seed", seed).stdout for seed in range(4)}
    assert len(drawn) > 1
    said = call("generate", trained, "--given", file, "--prompt", "a three", "--steps", "6", "--temperature", "0")
    assert said.stdout.startswith("a three")


def test_what_cannot_be_captioned_is_said(call: Call, trained: Path, images: Path, tmp_path: Path) -> None:
    small = images.parent / "small.png"
    assert "8x8 gray, but the training data are 28x28 gray" in call("translate", trained, small).stderr
    assert "is not a readable image" in call("translate", trained, tmp_path / "none.png").stderr
    assert "name the source by --given" in call("generate", trained).stderr
    evaluated = call("evaluate", trained, "--data", images)
    assert evaluated.code == 2
    assert "the model has learned from captioned images" in evaluated.stderr
    table = call("predict", trained, "--data", "digits", "--out", tmp_path / "p.csv")
    assert table.code == 2
    assert "learned from examples of shape (1, 28, 28); digits gives (1, 8, 8)" in table.stderr


@pytest.mark.slow
def test_pairs_of_texts_are_predicted_and_sampled_alike(call: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    dc.Run.train("seq2seq_attention:units=8,embedding=4", "dates", out=run, quiet=True, steps=2)
    columns = dc.Run(run).predict()
    assert columns.keys() == {"prediction", "log_prob"}
    assert len(columns["prediction"]) == 1000
    assert all(value < 0 for value in columns["log_prob"])
    said = call("generate", run, "--given", "3 october 2021", "--prompt", "2021-", "--steps", "5")
    assert said.stdout.startswith("2021-")
