"""Samples from the command line: of a seed, of a class, as a picture or as a table."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.image import imread

import deepcanon as dc

Call = Callable[..., Any]


def loaded(run: Path) -> Any:
    """The run's model, untyped, since a Model has no methods of its own."""
    return dc.load(run)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_samples_are_those_of_the_seed(call: Call, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "samples.csv"
    assert call("sample", runs / "gan", "-n", "5", "--seed", "7", "--out", out).code == 0
    values = torch.tensor([[float(value) for value in row.values()] for row in read(out)])
    assert torch.equal(values, loaded(runs / "gan").sample(5, generator=torch.Generator().manual_seed(7)))


def test_samples_are_drawn_as_pictures(call: Call, runs: Path, tmp_path: Path) -> None:
    for model in ("vae", "gan"):
        out = tmp_path / f"{model}.png"
        assert call("sample", runs / model, "-n", "9", "--out", out, "--json").json["out"] == str(out)
        assert imread(out).std() > 0.01, "a picture of one color shows nothing"


def test_samples_are_of_the_class_that_is_given(call: Call, tmp_path: Path, runs: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "samples.csv"
    small = ("--hidden", "8", "--timesteps", "5", "--steps", "3")
    assert call("train", "guided_ddpm", "--data", "moons", *small, "--out", run).code == 0
    asked = ("--given", "lower", "--guidance", "2", "-n", "3", "--seed", "7")
    assert call("sample", run, *asked, "--out", out).code == 0
    values = torch.tensor([[float(value) for value in row.values()] for row in read(out)])
    assert torch.equal(values, loaded(run).given(1, 2.0).sample(3, generator=torch.Generator().manual_seed(7)))
    for place, more, sentence in (
        (run, ("--given", "middle"), "there is no class 'middle'; there are upper, lower"),
        (run, ("--guidance", "2"), "guidance leads towards a class; name it by --given CLASS"),
        (runs / "gan", ("--given", "1"), "gan is not conditioned on classes, so leave out --given; guided_ddpm is"),
    ):
        answer = call("sample", place, *more, "--out", tmp_path / "other.csv")
        assert (answer.code, answer.stderr) == (2, f"deepcanon: {sentence}\n")


def test_samples_are_drawn_by_the_sampler_that_is_named(call: Call, tmp_path: Path, runs: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "samples.csv"
    small = ("--hidden", "8", "--timesteps", "9", "--steps", "3")
    assert call("train", "ddpm", "--data", "moons", *small, "--out", run).code == 0
    for sampler in ("ddim", "heun", "dpm"):
        asked = ("--sampler", sampler, "--steps", "4", "-n", "3", "--overwrite", "--out", out)
        assert call("sample", run, *asked).code == 0
        values = torch.tensor([[float(value) for value in row.values()] for row in read(out)])
        generator = torch.Generator().manual_seed(0)
        assert torch.equal(values, loaded(run).sample(3, sampler=sampler, steps=4, generator=generator))
    for place, more, sentence in (
        (run, ("--sampler", "euler"), "sampler must be one of ancestral, ddim, heun, dpm (got 'euler')"),
        (runs / "gan", ("--steps", "4"), "gan is drawn from in one way; leave out steps"),
    ):
        answer = call("sample", place, *more, "--out", tmp_path / "other.csv")
        assert (answer.code, answer.stderr) == (2, f"deepcanon: {sentence}\n")


def test_more_samples_than_a_picture_can_show_go_to_a_table(call: Call, runs: Path, tmp_path: Path) -> None:
    answer = call("sample", runs / "gan", "-n", "4097", "--out", tmp_path / "x.png")
    sentence = "a picture shows at most 4,096 samples (got -n 4,097); write more to a .csv file"
    assert (answer.code, answer.stderr) == (2, f"deepcanon: {sentence}\n")
    assert not (tmp_path / "x.png").exists()
    assert call("sample", runs / "gan", "-n", "4096", "--out", tmp_path / "x.png").code == 0
    assert call("sample", runs / "gan", "-n", "4097", "--out", tmp_path / "x.csv").code == 0
    assert len(read(tmp_path / "x.csv")) == 4097


def test_a_table_of_wide_samples_is_not_a_picture(call: Call, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["a,b,c", *(f"{i * i},{math.sin(i)},{i % 5 + 0.5}" for i in range(40))]) + "\n")
    call("train", "vae", "--data", table, "--steps", "1", "--hidden", "4", "--out", tmp_path / "run")
    answer = call("sample", tmp_path / "run", "--out", tmp_path / "x.png")
    assert answer.code == 2
    assert "samples of 3 values are not a picture; write them to a .csv file" in answer.stderr


def test_a_model_that_needs_a_class_takes_it_or_those_of_held_out_examples(call: Call, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "samples.csv"
    small = ("--hidden", "8", "--latent", "2", "--prior", "learned", "--steps", "3")
    assert call("train", "conditional_vae", "--data", "moons", *small, "--out", run).code == 0
    assert call("sample", run, "--given", "lower", "-n", "3", "--seed", "7", "--out", out).code == 0
    values = torch.tensor([[float(value) for value in row.values()] for row in read(out)])
    assert torch.equal(values, loaded(run).given(1).sample(3, generator=torch.Generator().manual_seed(7)))
    assert call("sample", run, "-n", "3", "--seed", "7", "--out", out, "--overwrite").code == 0
    held_out = dc.Run(run).data.split("test").y[:3]
    values = torch.tensor([[float(value) for value in row.values()] for row in read(out)])
    assert torch.equal(values, loaded(run).sample(3, context=held_out, generator=torch.Generator().manual_seed(7)))
    assert call("evaluate", run).code == 0
    answer = call("export", run, "--to", tmp_path / "x.onnx")
    sentence = "conditional_vae is not a single map; export one of its parts by --part: encoder, decoder"
    assert (answer.code, answer.stderr) == (2, f"deepcanon: {sentence}\n")


def test_images_in_gray_levels_are_drawn_from_black_to_white(call: Call, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "samples.png"
    small = ("--maps", "2", "--layers", "1", "--reach", "1", "--steps", "2")
    assert call("train", "gated_pixelcnn", "--data", "digits:levels", *small, "--out", run).code == 0
    assert call("sample", run, "-n", "4", "--out", out).code == 0
    levels = dc.Run(run).sample(4)
    assert set(levels.unique().tolist()) <= set(range(17))
    assert float(levels.max()) > 8
    inside = imread(out)[..., :3]
    assert len({round(float(value), 2) for value in inside.flatten()}) > 10, "more than black and white"


def test_samples_of_dequantized_images_are_as_bright_as_the_data(tmp_path: Path, call: Call) -> None:
    run, out = tmp_path / "run", tmp_path / "samples.png"
    assert call("train", "ppca", "--data", "digits:dequantized", "--out", run).code == 0
    assert call("sample", run, "-n", "9", "--out", out).code == 0
    pixels = imread(out)[..., :3].mean(-1)
    assert (pixels[pixels < 0.8].size / pixels.size) > 0.2
    assert ((pixels > 0.3) & (pixels < 0.7)).mean() > 0.05, "gray pixels, not black ones"


def test_a_method_around_a_conditional_model_takes_a_class_as_that_model_does(call: Call, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "samples.csv"
    made = call(
        "train", "regularized", "--model", "guided_ddpm", "--model.hidden", "8", "--model.timesteps", "5",
        "--data", "moons", "--steps", "3", "--out", run,
    )  # fmt: skip
    assert made.code == 0, made.stderr
    asked = ("--given", "lower", "--guidance", "2", "-n", "3", "--seed", "7")
    assert call("sample", run, *asked, "--out", out).code == 0
    values = torch.tensor([[float(value) for value in row.values()] for row in read(out)])
    inner = loaded(run).model
    assert torch.equal(values, inner.given(1, 2.0).sample(3, generator=torch.Generator().manual_seed(7)))


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_a_method_around_a_model_that_needs_a_class_is_trained_measured_and_drawn(call: Call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = ("--model.hidden", "8", "--model.latent", "2", "--steps", "3")
    made = call("train", "lora", "--model", "conditional_vae", "--data", "moons", *small, "--out", run)
    assert made.code == 0, made.stderr
    assert {path.stem for path in (run / "pictures").iterdir()} >= {"samples", "reconstructions", "curves"}
    assert call("sample", run, "-n", "3", "--out", tmp_path / "samples.csv").code == 0
    assert call("evaluate", run).code == 0
