"""Variational and energy-based models on the fixed binarization of MNIST, next to published figures.

    python benchmarks/binarized_mnist.py [--models vae iwae-1 iwae-5 iwae-50 planar iaf rbm dbn] [--seeds 2]
                                         [--first 0] [--epochs 20] [--rows 50000] [--test 10000] [--samples 5000]
                                         [--temperatures 5000] [--split test] [--rates 50]
                                         [--out runs/binarized_mnist]

Every variational autoencoder has one stochastic layer of 50 latents, and hidden layers of the same widths on both
sides. Its test figure is the importance-weighted bound on -log p(x) by so many samples for each image, in nats, with
its standard error over the images. Differences are taken image by image, so that they are known better than the figures
themselves.

Log Z, of the RBM or of the top machine of the deep belief network, is estimated by annealed importance sampling from
the base rates of the data over so many temperatures, with its standard error over 100 chains; on average it is too low,
and the likelihood too high. The figure of the network is its bound by 20 samples of its recognition model, less this
log Z.

What is chosen, such as the cap of the learning rates of RBM and deep belief network, is chosen by ``--split valid``,
the validation images, which no training here sees: with several ``--rates``, the energy-based models are trained with
each, given as the product of the learning rate and the number of hidden units.

The folder keeps every run and every figure: what is there is not computed again, a run that was broken off goes on, and
other settings need another folder. The data are those that docs/data.md says; no binarization is drawn here.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import math
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError
from deepcanon.models.energy._rbm import FASTEST

VARIATIONAL: dict[str, tuple[str, dict[str, Any]]] = {
    "vae": ("vae", {}),
    "iwae-1": ("iwae", {"importance_samples": 1}),
    "iwae-5": ("iwae", {"importance_samples": 5}),
    "iwae-50": ("iwae", {"importance_samples": 50}),
    "planar": ("flow_vae", {"flow": "planar", "transforms": 10}),
    "iaf": ("flow_vae", {"flow": "iaf", "transforms": 2}),
}
UNITS = 500
ENERGY: dict[str, dict[str, Any]] = {"rbm": {"units": UNITS}, "dbn": {"hidden": (UNITS, 2000)}}
MODELS = [*VARIATIONAL, *ENERGY]
PUBLISHED = {
    "vae": "89.9, fixed, 200 samples (Rezende and Mohamed, 2015)",
    "iwae-1": "88.71, fixed, 5,000 samples (Burda et al., 2016)",
    "iwae-5": "87.63, fixed, 5,000 samples (Burda et al., 2016)",
    "iwae-50": "87.10, fixed, 5,000 samples (Burda et al., 2016)",
    "planar": "87.5, fixed, 10 planar transforms, 200 samples (Rezende and Mohamed, 2015)",
    "iaf": "none of this size; 79.10 with a deep ResNet, dynamic (Kingma et al., 2016)",
    "rbm": "86.34, 500 units, CD-25 (Salakhutdinov and Murray, 2008)",
    "dbn": "84.55, 500 and 2,000 units (Salakhutdinov and Murray, 2008, as quoted by Germain et al., 2015)",
}
PAIRS = [("iwae-1", "iwae-5"), ("iwae-5", "iwae-50"), ("vae", "planar"), ("vae", "iaf")]
"""Of each pair the second should be better."""
CHUNK = 100
"""How many test images are evaluated at once."""
NETWORK_SAMPLES = 20
"""Of the recognition model, in the bound of a deep belief network."""


def trained(name: str, rate: float, seed: int, data: Any, asked: argparse.Namespace) -> tuple[Any, float]:
    """The model of this name after its training, which is resumed if there is one, and the seconds that it took now."""
    folder = asked.out / run_name(name, rate, seed)
    began = time.perf_counter()
    if not (folder / "run.json").exists():
        torch.manual_seed(seed)
        model, settings = built(name, rate, asked)
        dc.fit(model, data, out=folder, quiet=True, seed=seed, epochs=asked.epochs, batch_size=100,
               keep_weights="last", evaluate=False, pictures=False, **settings)  # fmt: skip
    elif json.loads((folder / "run.json").read_text())["status"] != "finished":
        dc.resume(folder, data, quiet=True)
    return dc.load(folder), time.perf_counter() - began


def run_name(name: str, rate: float, seed: int) -> str:
    return f"{name}-{seed}" if name in VARIATIONAL or rate == FASTEST else f"{name}-{rate:g}-{seed}"


def built(name: str, rate: float, asked: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The model of this name, new, and the settings of its training."""
    if name in ENERGY:
        return dc.find(name)(features=784, **ENERGY[name]), {"lr": rate / UNITS, "schedule": "linear"}
    kind, arguments = VARIATIONAL[name]
    model = dc.find(kind)(features=784, latent=50, hidden=asked.hidden, likelihood="bernoulli", **arguments)
    return model, {"lr": 3e-3, "schedule": "cosine"}


@torch.no_grad()
def measured(name: str, model: Any, x: Tensor, asked: argparse.Namespace) -> tuple[Tensor, float]:
    """What -log p(x) of each image is found to be, (images,), in nats, and the standard error that all share."""
    generator = torch.Generator().manual_seed(0)
    parts = x.split(CHUNK)
    if name in VARIATIONAL:
        return torch.cat([-model.log_prob(rows, samples=asked.samples, generator=generator) for rows in parts]), 0.0
    machine = model.top if name == "dbn" else model
    log_z = machine.annealed_log_partition(temperatures=asked.temperatures, generator=generator)
    if name == "rbm":
        return (model.energy(x) + log_z.value).double(), log_z.error.item()
    ratios = torch.cat([model.log_unnormalized(rows, NETWORK_SAMPLES, generator) for rows in parts])
    return (log_z.value - ratios).double(), log_z.error.item()


def mean_and_error(values: Tensor) -> tuple[float, float]:
    return values.mean().item(), values.std().item() / math.sqrt(len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--hidden", type=int, nargs="+", default=[200], help="the widths of the hidden layers")
    parser.add_argument("--rows", type=int, default=50_000, help="the first so many training images")
    parser.add_argument("--test", type=int, default=10_000, help="so many held-out images, drawn by a fixed seed")
    parser.add_argument("--samples", type=int, default=5000, help="of the bound, for each test image")
    parser.add_argument("--temperatures", type=int, default=5000, help="of annealed importance sampling")
    parser.add_argument("--split", default="test", choices=["test", "valid"], help="the held-out images")
    parser.add_argument("--rates", type=float, nargs="+", default=[FASTEST], help="of energy-based models, times units")
    parser.add_argument("--out", type=Path, default=Path("runs/binarized_mnist"))
    asked = parser.parse_args()
    asked.hidden = tuple(asked.hidden)
    torch.set_num_threads(1)
    try:
        whole = dc.load_data("binarized-mnist")
    except DataError as error:
        print(f"skipped: {error}")
        return
    kept_names = ("epochs", "hidden", "rows", "test", "samples", "temperatures", "split")
    settings = {name: getattr(asked, name) for name in kept_names}
    settings = json.loads(json.dumps(settings))
    asked.out.mkdir(parents=True, exist_ok=True)
    notes = asked.out / "settings.json"
    if notes.exists() and json.loads(notes.read_text()) != settings:
        parser.error(f"{asked.out} has runs of other settings, {notes.read_text()}; give another --out")
    notes.write_text(json.dumps(settings))
    data = replace(whole, train=Batch(whole.train.x[: asked.rows]), valid=None, name=f"binarized-mnist-{asked.rows}")
    x = whole.split(asked.split).x
    x = x[
        torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: asked.test]
    ]  # they are not in mixed order
    found: dict[tuple[str, int], Tensor] = {}
    seeds = range(asked.first, asked.first + asked.seeds)
    trials = [(name, rate) for name in asked.models for rate in (asked.rates if name in ENERGY else asked.rates[:1])]
    for seed, (name, rate) in product(seeds, trials):
        label = run_name(name, rate, seed).removesuffix(f"-{seed}")
        kept = asked.out / f"{label}-{seed}.json"
        if not kept.exists():
            model, seconds = trained(name, rate, seed, data, asked)
            began = time.perf_counter()
            values, shared = measured(name, model, x, asked)
            row = {
                "seconds": seconds,
                "evaluation_seconds": time.perf_counter() - began,
                "nll": values.tolist(),
                "log_z_error": shared,
            }
            kept.write_text(json.dumps(row))
        row = json.loads(kept.read_text())
        found[label, seed] = torch.tensor(row["nll"], dtype=torch.float64)
        mean, spread = mean_and_error(found[label, seed])
        print(
            f"{label:8} seed {seed}: {mean:7.2f} +- {spread:.2f} nats"
            + (f" and +- {row['log_z_error']:.2f} by log Z" if name in ENERGY else "")
            + f", {row['seconds'] / 60:.1f} minutes   published: {PUBLISHED[name]}",
            flush=True,
        )
    report(found, seeds)


def report(found: dict[tuple[str, int], Tensor], seeds: range) -> None:
    """By how much the second of each pair is better than the first, image by image."""
    for first, second in PAIRS:
        for seed in seeds:
            if (first, seed) in found and (second, seed) in found:
                gain, error = mean_and_error(found[first, seed] - found[second, seed])
                print(f"{second} is better than {first}, seed {seed}, by {gain:.2f} +- {error:.2f} nats")


if __name__ == "__main__":
    main()
