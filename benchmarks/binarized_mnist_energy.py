"""An RBM and a deep belief network on the fixed binarization of MNIST, next to published figures.

    python benchmarks/binarized_mnist_energy.py [--models rbm dbn] [--epochs 15] [--rows 50000] [--seed 0]
                                                [--chains 100] [--temperatures 5000] [--samples 20]

Log Z, of the RBM or of the top machine of the network, is estimated by annealed importance sampling from the base rates
of the data, with its standard error over the chains; on average it is too low, and the likelihood too high. That of the
network is the bound by so many samples of its recognition model, less this log Z.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import math
import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError

MODELS: dict[str, dict[str, Any]] = {"rbm": {"units": 500}, "dbn": {"hidden": (500, 500)}}
PUBLISHED = {
    "rbm": "86.34, 500 units, CD-25 (Salakhutdinov and Murray, 2008)",
    "dbn": "84.55, 500 and 2,000 units (Salakhutdinov and Murray, 2008, as quoted by Germain et al., 2015)",
}
CHUNK = 500


@torch.no_grad()
def without_log_z(model: Any, x: Tensor, samples: int) -> Tensor:
    """log p(x) + log Z of each image, (images,): the free energy, or the bound over the layers below the top."""
    if not hasattr(model, "top"):
        free_energy: Tensor = model.energy(x)
        return -free_energy
    parts = [
        torch.stack([model._log_weight(rows, None) for _ in range(samples)]).logsumexp(0) for rows in x.split(CHUNK)
    ]
    return torch.cat(parts) - math.log(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--gibbs-steps", type=int, default=1)
    parser.add_argument("--rows", type=int, default=50_000, help="the first so many training images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--temperatures", type=int, default=5000)
    parser.add_argument("--samples", type=int, default=20)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    try:
        whole = dc.load_data("binarized-mnist")
    except DataError as error:
        print(f"skipped: {error}")
        return
    data = replace(whole, train=Batch(whole.train.x[: asked.rows]), valid=None, name=f"binarized-mnist-{asked.rows}")
    x = whole.split("test").x
    for name in asked.models:
        torch.manual_seed(asked.seed)
        model: Any = dc.find(name)(features=784, gibbs_steps=asked.gibbs_steps, **MODELS[name])
        began = time.process_time()
        dc.fit(model, data, quiet=True, seed=asked.seed, epochs=asked.epochs, lr=asked.lr, evaluate=False)
        trained = time.process_time() - began
        model.eval()
        machine = getattr(model, "top", model)
        log_z = machine.annealed_log_partition(chains=asked.chains, temperatures=asked.temperatures)
        rows = without_log_z(model, x, asked.samples).double() - log_z.value
        spread = rows.std().item() / math.sqrt(len(rows))
        print(
            f"{name} {MODELS[name]}: {-rows.mean().item():.2f} nats per test image, +- {log_z.error.item():.2f} by "
            f"log Z and {spread:.2f} by the images; {asked.epochs} epochs of {asked.rows:,} images, "
            f"{trained / 60:.1f} processor minutes   published: {PUBLISHED[name]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
