"""What all models share, for every model file that there is: a new one is found and held to it by itself."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon import catalogue, laws
from deepcanon.core import DataError, Model
from deepcanon.data import Dataset
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.resume import resume

FAMILIES = {
    entry.name: entry.module.rpartition(".")[0]
    for entry in catalogue.entries()
    if entry.module.startswith("deepcanon.")
}
MODELS = list(FAMILIES)
LONG = {
    "bert", "boltzmann_machine", "caption_to_image", "conditional_glow", "conditional_pixelcnn", "conditional_vae",
    "continuous_flow", "dbn", "deepar", "densenet", "ebm", "flow_vae", "full_covariance_vae", "gated_pixelcnn",
    "gaussian_rbm", "glow", "gpt", "guided_ddpm", "hierarchical_vae", "iaf", "ising", "latent_diffusion", "lenet",
    "lstm", "noise_conditional_score", "pixelcnn", "pixelrnn", "planar", "prefix_lm", "ratings_rbm", "rbm", "resnet",
    "score_sde", "seq2seq", "seq2seq_attention", "t5", "transformer", "video_flow", "vit",
}  # fmt: skip
"""Models whose laws take longest, about a second or more; of each family there are others."""
every_model = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in MODELS]
)


def test_the_catalogue_finds_the_models() -> None:
    assert {"softmax_regression", "mlp", "vae", "gan", "hopfield"} <= set(MODELS)
    assert laws.kinds_of(catalogue.find("mlp")) == ["contract", "classifier"]
    assert laws.kinds_of(catalogue.find("vae")) == ["contract", "latent"]
    assert laws.kinds_of(catalogue.find("autoencoder")) == ["contract", "autoencoder"]
    assert laws.kinds_of(catalogue.find("nade")) == ["contract", "discrete"]
    assert laws.kinds_of(catalogue.find("lstm")) == ["contract", "sequence", "decoding"]
    assert laws.kinds_of(catalogue.find("gpt")) == ["contract", "sequence", "decoding", "attention"]
    assert laws.kinds_of(catalogue.find("lstm_predictor")) == ["contract", "classifier", "sequence"]
    assert laws.kinds_of(catalogue.find("rbm")) == ["contract", "discrete", "energy"]
    assert laws.kinds_of(catalogue.find("gaussian_rbm")) == ["contract", "energy", "continuous", "sampler"]
    assert laws.kinds_of(catalogue.find("ising")) == ["contract", "discrete", "energy"]
    assert laws.kinds_of(catalogue.find("ebm")) == ["contract", "energy", "continuous", "sampler"]
    assert laws.kinds_of(catalogue.find("gaussian_mrf")) == ["contract", "energy", "continuous", "sampler"]
    assert laws.kinds_of(catalogue.find("dbn")) == ["contract", "discrete"]
    assert laws.kinds_of(catalogue.find("dbn_classifier")) == ["contract", "classifier"]
    assert laws.kinds_of(catalogue.find("modern_hopfield")) == ["contract", "energy"]
    assert laws.kinds_of(catalogue.find("boltzmann_machine")) == ["contract", "discrete"]
    assert laws.kinds_of(catalogue.find("ratings_rbm")) == ["contract", "discrete", "energy"]
    assert laws.kinds_of(catalogue.find("gaussian_mixture")) == ["contract", "continuous", "sampler"]
    assert laws.kinds_of(catalogue.find("realnvp")) == ["contract", "continuous", "sampler", "flow"]
    assert laws.kinds_of(catalogue.find("video_flow")) == ["contract", "continuous", "sampler", "flow", "videos"]
    assert laws.kinds_of(catalogue.find("score_matching")) == ["contract", "score"]
    assert laws.kinds_of(catalogue.find("score_sde")) == ["contract", "continuous", "sampler"]
    assert laws.kinds_of(catalogue.find("ddpm")) == ["contract", "diffusion"]
    assert laws.kinds_of(catalogue.find("gan")) == ["contract", "game"]
    assert laws.kinds_of(catalogue.find("gcn")) == ["contract", "graph"]
    assert laws.kinds_of(catalogue.find("deepar")) == ["contract", "forecaster"]
    assert laws.kinds_of(catalogue.find("link_predictor")) == ["contract"]
    assert laws.kinds_of(catalogue.find("graph_classifier")) == ["contract", "classifier", "graphs"]
    assert laws.kinds_of(catalogue.find("graph_generator")) == ["contract", "graph_density"]
    assert laws.kinds_of(catalogue.find("fixmatch")) == ["contract", "classifier", "method"]


@pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "gaussian_mixture",
        "gaussian_rbm",
        "ppca",
        "vae",
        "realnvp",
        "nice",
        "ddpm",
        "guided_ddpm",
        "rbm",
        "nade",
        "made",
    ],
)
def test_densities_refuse_zeros_and_ones_and_probabilities_all_else(name: str) -> None:
    model: Any
    model, batch = catalogue.find(name).example()
    bits = (batch.x > batch.x.median()).to(batch.x)
    wrong = batch.x + 0.5 if model.support == "binary" else bits
    with pytest.raises(DataError, match="zeros and ones"):
        model.prepare([replace(batch, x=wrong)])
    with pytest.raises(DataError, match="zeros and ones"):
        model.log_prob(wrong)


def test_without_the_slow_tests_models_of_every_family_are_held_to_their_laws() -> None:
    assert set(MODELS) >= LONG
    assert {FAMILIES[name] for name in set(MODELS) - LONG} == set(FAMILIES.values())


@every_model
def test_a_model_keeps_the_laws_of_its_kinds(name: str) -> None:
    cls = catalogue.find(name)
    for kind in laws.kinds_of(cls):
        torch.manual_seed(0)
        found = laws.check(cls, kind)
        assert all(outcome.holds for outcome in found), f"{name} as {kind}\n{laws.report(found)}"


@every_model
def test_a_run_that_is_resumed_ends_with_the_bits_of_an_unbroken_one(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, batch = catalogue.find(name).example()
    data: Dataset[Any] = Dataset(name="tensors", kind="table", train=batch, shape=tuple(batch.x.shape[1:]))
    size = max(1, len(batch) // 3)
    dc.fit(model, data, out=tmp_path, quiet=True, epochs=4, batch_size=size, checkpoint_every=1, keep=99)
    unbroken = {key: value.clone() for key, value in model.state_dict().items()}
    logged = RunFolder.open(tmp_path).log()

    take_back(tmp_path)
    classes = {type(part).name(): type(part) for part in model.modules() if isinstance(part, Model)}
    resumed = resume(tmp_path, data, find=classes.__getitem__, quiet=True).model.state_dict()
    different = [key for key, value in unbroken.items() if not torch.equal(value, resumed[key])]
    assert different == []
    assert resumed.keys() == unbroken.keys()
    assert [record["step"] for record in RunFolder.open(tmp_path).log()] == [record["step"] for record in logged]


def take_back(folder: Path) -> None:
    """Make a finished run one that was broken off half-way."""
    run = RunFolder.open(folder)
    there = checkpoint.saved(run.checkpoints)
    assert len(there) >= 4
    for path in there[len(there) // 2 :]:
        shutil.rmtree(path)
    (folder / "model.safetensors").unlink()
    run.info.pop("sha256")
    run.update(status="running")
