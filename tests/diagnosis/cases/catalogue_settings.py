"""Healthy trainings of the catalogue's models on embedded data, by their recipes or nearly so."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch

import deepcanon as dc
from deepcanon.blueprints import blueprint
from deepcanon.data.suits import default_data
from tests.diagnosis.cases.case import Patient


def measured(name: str, sign: float) -> Callable[[Patient], float]:
    """A score: a metric of the model on fresh data, or its loss, times a sign so that more is better."""

    def score(patient: Patient) -> float:
        model: Any = patient.model.eval()
        torch.manual_seed(0)
        with torch.no_grad():
            terms = model.loss(patient.fresh) if name == "loss" else model.metrics(patient.fresh)
            value = sign * float(sum(terms.values()) if name == "loss" else terms[name])
        return value if math.isfinite(value) else -1e9

    return score


def ours(
    words: str,
    data: str | None,
    metric: str,
    *,
    steps: int,
    chance: float | None = None,
    sign: float = 1.0,
    **settings: Any,
) -> Patient:
    """A model of the catalogue by name and arguments, on its default data if none are named."""
    asked = blueprint(words)
    chosen = copy.deepcopy(default_data(asked) if data is None else dc.load_data(data))  # faults change it in place
    model = asked.build(chosen.model_sizes, chosen.name)
    return Patient(
        model, chosen, measured(metric, sign), chance, copy.deepcopy(chosen.test), settings=settings, steps=steps
    )


def mlp() -> Patient:
    return ours("mlp", "digits", "accuracy", chance=0.1, steps=300)


def cnn() -> Patient:
    return ours("cnn:hidden=8/16", "digits", "accuracy", chance=0.1, steps=150)


def mlp_on_tumors() -> Patient:
    return ours("mlp:hidden=32", "breast-cancer", "accuracy", chance=0.63, steps=200)


def mlp_on_diabetes() -> Patient:
    return ours("mlp:hidden=32", "diabetes", "mse", chance=-1.0, sign=-1.0, steps=300)


def mlp_on_houses() -> Patient:
    return ours("mlp:hidden=64/64", "houses", "mse", chance=-1.0, sign=-1.0, steps=300)


def logistic_regression_by_descent() -> Patient:
    return ours(
        "logistic_regression", "breast-cancer", "accuracy", chance=0.63, steps=300,
        optimizer="sgd", lr=0.3, batch_size=64,
    )  # fmt: skip


def autoencoder_model() -> Patient:
    return ours("autoencoder:latent=8,hidden=64", "digits", "loss", sign=-1.0, steps=300)


def vae() -> Patient:
    return ours("vae:hidden=64", "digits:dequantized", "nll", sign=-1.0, steps=600)


def conditional_vae() -> Patient:
    return ours("conditional_vae:hidden=64", "digits:dequantized", "nll", sign=-1.0, steps=600)


def binary_vae() -> Patient:
    return ours("vae:hidden=64,likelihood=bernoulli", "digits:binary", "nll", sign=-1.0, steps=600)


def gan() -> Patient:
    return ours("gan", "eight-gaussians", "energy_distance", sign=-1.0, steps=1500)


def wgan() -> Patient:
    return ours("wgan:hidden=64/64", "moons", "energy_distance", sign=-1.0, steps=900)


def rbm() -> Patient:
    return ours("rbm:units=32", "digits:binary", "pseudo_nll", sign=-1.0, steps=600)


def small_rbm() -> Patient:
    return ours("rbm:units=12", "bars-and-stripes", "nll", sign=-1.0, steps=1500)


def ebm() -> Patient:
    return ours("ebm:hidden=32/32", "moons", "nll", sign=-1.0, steps=300)


def realnvp() -> Patient:
    return ours("realnvp:couplings=6,hidden=32/32", "moons", "nll", sign=-1.0, steps=500)


def nice() -> Patient:
    return ours("nice:couplings=6,hidden=32/32", "moons", "nll", sign=-1.0, steps=500)


def maf() -> Patient:
    return ours("maf:transforms=4,hidden=32/32", "moons", "nll", sign=-1.0, steps=500)


def made() -> Patient:
    return ours("made:hidden=128", "digits:binary", "nll", sign=-1.0, steps=400)


def nade() -> Patient:
    return ours("nade:units=64", "digits:binary", "nll", sign=-1.0, steps=300)


def pixelcnn() -> Patient:
    return ours("pixelcnn:maps=12,layers=2", "digits:levels", "nll", sign=-1.0, steps=150)


def gpt() -> Patient:
    return ours("gpt:layers=2,embedding=64", "text:length=64", "loss", sign=-1.0, steps=250, batch_size=16)


def lstm() -> Patient:
    return ours("lstm:units=96,embedding=32", "text:length=64", "loss", sign=-1.0, steps=250, batch_size=16)


def wavenet() -> Patient:
    return ours("wavenet:channels=16,layers=5", "waveform", "loss", sign=-1.0, steps=150)


def ddpm() -> Patient:
    return ours("ddpm:hidden=64/64,timesteps=50", "moons", "nll", sign=-1.0, steps=800)


def gcn() -> Patient:
    return ours("gcn", "block-model", "accuracy", chance=0.25, steps=100)


def fixmatch() -> Patient:
    return ours("fixmatch:model=mlp", "digits:labels=40", "accuracy", chance=0.1, steps=600)


def pseudo_label() -> Patient:
    return ours("pseudo_label:model=mlp", "digits:labels=40", "accuracy", chance=0.1, steps=400)


def simclr() -> Patient:
    return ours("simclr:model=cnn", "digits", "matched", chance=0.01, steps=100)


def siamese() -> Patient:
    return ours("siamese:model=cnn", "digits", "nearest", chance=0.1, steps=100)


def distillation() -> Patient:
    return ours(
        "distillation:model=mlp,teacher=mlp,weight=1.0,teaching=0.4", "digits", "accuracy", chance=0.1, steps=400
    )
