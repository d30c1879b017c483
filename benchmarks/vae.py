"""A variational autoencoder compared with pythae's: 784-512-16-512-784, batches of 128, Adam, one thread.

    python benchmarks/vae.py [--rounds 60] [--json results.json]

Both objectives are raced: Bernoulli against pythae's ``bce``, Gaussian against its default ``mse``. pythae trains with
its own trainer and its default Adam, and needs ``pip install -c constraints.txt -e '.[bench]'``. A bare loop, the same
network and the same closed forms written by hand with an index select and the fused Adam, shows what is left to gain.
Blocks of 20 steps are interleaved, each candidate in a process of its own; the table gives medians over pairs of
blocks and an A/A control.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import contextlib
import importlib.util
import io
import json
import logging
import platform
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from relay import STEPS, Candidate, race, ratio
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Terms
from deepcanon.train import Observer, Trainer
from deepcanon.train.settings import resolve_settings

N, FEATURES, HIDDEN, LATENT, BATCH, LR = 60_000, 784, 512, 16, 128, 1e-4
FOREVER = 1000
LOSSES = {"bernoulli": "bce", "gaussian": "mse"}
"""The names of our likelihoods in pythae."""
Lap = Callable[[], None]


def data() -> Tensor:
    return torch.rand(N, FEATURES, generator=torch.Generator().manual_seed(0)).round()


def ours(x: Tensor, likelihood: str) -> Callable[[Lap], None]:
    """The Trainer as it comes, with its run folder, log and gradient norms."""

    def train(lap: Lap) -> None:
        class Lapper(Observer):
            def step(self, trainer: Trainer, terms: Terms) -> None:
                lap()

        torch.manual_seed(0)
        model = dc.find("vae")(features=FEATURES, latent=LATENT, hidden=(HIDDEN,), likelihood=likelihood)
        settings = resolve_settings(model.recipe, lr=LR, batch_size=BATCH, epochs=FOREVER)
        trainer = Trainer(model, dc.from_tensors(x), settings, quiet=True, observers=[Lapper()])
        with tempfile.TemporaryDirectory() as folder:
            trainer.write_to(Path(folder) / "run", overwrite=False)
            trainer.fit()

    return train


def pythae(x: Tensor, likelihood: str) -> Callable[[Lap], None]:
    """pythae's VAE with its own networks, which have these widths, and its own trainer."""

    def train(lap: Lap) -> None:
        from pythae.data.datasets import BaseDataset
        from pythae.models import VAE, VAEConfig
        from pythae.trainers import BaseTrainer, BaseTrainerConfig
        from pythae.trainers.training_callbacks import TrainingCallback

        class Lapper(TrainingCallback):  # type: ignore[misc, unused-ignore]
            def on_train_step_end(self, training_config: Any, **_: Any) -> None:
                lap()

        torch.manual_seed(0)
        loss = LOSSES[likelihood]
        model = VAE(VAEConfig(input_dim=(FEATURES,), latent_dim=LATENT, reconstruction_loss=loss))
        with tempfile.TemporaryDirectory() as folder:
            config = BaseTrainerConfig(
                output_dir=folder, num_epochs=FOREVER, per_device_train_batch_size=BATCH, learning_rate=LR
            )
            BaseTrainer(
                model, BaseDataset(x, torch.zeros(len(x))), training_config=config, callbacks=[Lapper()]
            ).train()

    return train


def bare(x: Tensor, likelihood: str) -> Callable[[Lap], None]:
    """The fastest plain loop: closed forms by hand, an index select and the fused optimizer, nothing logged."""

    def train(lap: Lap) -> None:
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * LATENT))
        decoder = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, FEATURES))
        optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=LR, fused=True)
        for _ in range(FOREVER):
            for index in torch.randperm(len(x)).split(BATCH):
                batch = x.index_select(0, index)
                mean, log_scale = encoder(batch).chunk(2, -1)
                scale = log_scale.exp()
                output = decoder(mean + scale * torch.randn_like(scale))
                if likelihood == "bernoulli":
                    error = F.binary_cross_entropy_with_logits(output, batch, reduction="sum")
                else:
                    error = 0.5 * F.mse_loss(output, batch, reduction="sum")
                kl = 0.5 * (mean.square() + scale.square() - 1 - 2 * log_scale).sum()
                optimizer.zero_grad()
                ((error + kl) / len(batch)).backward()
                optimizer.step()
                lap()

    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=60, help="interleaved blocks of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    x = data()
    makers = {"deepcanon": ours, "bare loop": bare, "bare loop again": bare}
    if importlib.util.find_spec("pythae"):
        makers["pythae"] = pythae
    machine = f"torch {torch.__version__}, {platform.machine()}, 1 thread"
    print(f"{machine}, {arguments.rounds} interleaved blocks of {STEPS} steps")
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    for likelihood in LOSSES:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            candidates = {name: Candidate(name, maker(x, likelihood)) for name, maker in makers.items()}
            race(list(candidates.values()), arguments.rounds)
        mine = candidates["deepcanon"]
        print(f"{likelihood:18} {'steps/s':>8}  deepcanon is faster by")
        rows = numbers[likelihood] = {}
        for name, candidate in candidates.items():
            speed, faster = STEPS / statistics.median(candidate.blocks), ratio(candidate, mine)
            rows[name] = {"steps_per_second": round(speed, 1), "deepcanon_faster_by": round(faster, 3)}
            print(f"  {name:16} {speed:8.1f}  {faster:.2f}x")
        control = ratio(candidates["bare loop"], candidates["bare loop again"])
        rows["control"] = {"ratio": round(control, 3)}
        print(f"  A/A control (bare loop against itself): {control:.3f}x")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
