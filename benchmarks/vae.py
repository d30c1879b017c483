"""Variational autoencoders compared with pythae's: 784-512-16-512-784, batches of 128, Adam, one thread.

    python benchmarks/vae.py [--models bernoulli gaussian iwae iaf hierarchical] [--rounds 60] [--processor-time]
                             [--json results.json]

The VAE is raced with both objectives: Bernoulli against pythae's ``bce``, Gaussian against its default ``mse``; then,
with the Bernoulli one, IWAE of 50 samples on batches of 20, as in the paper, and a posterior moved by two inverse
autoregressive transforms of 512 hidden units. pythae has no hierarchy of latents (its HVAE is the Hamiltonian VAE), so
that the one here, of 16 and 8 latents, races against the bare loop alone. pythae trains with its own trainer and its
default Adam, and needs ``pip install -c constraints.txt -e '.[bench]'``. A bare loop, the same network and the same
closed forms written by hand with an index select and the fused Adam, shows what is left to gain. Blocks of 20 steps are
interleaved, each candidate in a process of its own; the table gives medians over pairs of blocks and an A/A control. On
a machine that others work on, too, the processor time of each tells more than the wall's.
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
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
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
SAMPLES, TRANSFORMS, TOP = 50, 2, 8
LOSSES = {"bernoulli": "bce", "gaussian": "mse"}
"""The names of our likelihoods in pythae."""
Lap = Callable[[], None]
Maker = Callable[[Tensor], Callable[[Lap], None]]


@dataclass(frozen=True)
class Contest:
    """A model of ours by name with its arguments, its peer in pythae, if any, and the loss of the bare loop."""

    ours: str
    arguments: dict[str, Any]
    bare: Callable[[Tensor], tuple[list[nn.Parameter], Callable[[Tensor], Tensor]]]
    peer: tuple[str, dict[str, Any]] | None
    batch: int = BATCH


def data(likelihood: str) -> Tensor:
    """Values in [0, 1], of the Bernoulli likelihood zeros and ones."""
    x = torch.rand(N, FEATURES, generator=torch.Generator().manual_seed(0))
    return x.round() if likelihood == "bernoulli" else x


def ours(contest: Contest) -> Maker:
    """The Trainer as it comes, with its run folder, log and gradient norms."""

    def with_data(x: Tensor) -> Callable[[Lap], None]:
        def train(lap: Lap) -> None:
            class Lapper(Observer):
                def step(self, trainer: Trainer, terms: Terms) -> None:
                    lap()

            torch.manual_seed(0)
            model = dc.find(contest.ours)(features=FEATURES, hidden=(HIDDEN,), **contest.arguments)
            settings = resolve_settings(model.recipe, lr=LR, batch_size=contest.batch, epochs=FOREVER)
            trainer = Trainer(model, dc.from_tensors(x), settings, quiet=True, observers=[Lapper()])
            with tempfile.TemporaryDirectory() as folder:
                trainer.write_to(Path(folder) / "run", overwrite=False)
                trainer.fit()

        return train

    return with_data


def pythae(contest: Contest) -> Maker:
    """pythae's model with its own networks, which have these widths, and its own trainer."""
    assert contest.peer is not None
    name, options = contest.peer

    def with_data(x: Tensor) -> Callable[[Lap], None]:
        def train(lap: Lap) -> None:
            import pythae.models
            from pythae.data.datasets import BaseDataset
            from pythae.trainers import BaseTrainer, BaseTrainerConfig
            from pythae.trainers.training_callbacks import TrainingCallback

            class Lapper(TrainingCallback):  # type: ignore[misc, unused-ignore]
                def on_train_step_end(self, training_config: Any, **_: Any) -> None:
                    lap()

            torch.manual_seed(0)
            configuration = getattr(pythae.models, f"{name}_Config", None) or getattr(pythae.models, f"{name}Config")
            model = getattr(pythae.models, name)(configuration(input_dim=(FEATURES,), latent_dim=LATENT, **options))
            with tempfile.TemporaryDirectory() as folder:
                config = BaseTrainerConfig(
                    output_dir=folder, num_epochs=FOREVER, per_device_train_batch_size=contest.batch, learning_rate=LR
                )
                BaseTrainer(
                    model, BaseDataset(x, torch.zeros(len(x))), training_config=config, callbacks=[Lapper()]
                ).train()

        return train

    return with_data


def bare(contest: Contest) -> Maker:
    """The fastest plain loop: closed forms by hand, an index select and the fused optimizer, nothing logged."""

    def with_data(x: Tensor) -> Callable[[Lap], None]:
        def train(lap: Lap) -> None:
            torch.manual_seed(0)
            parameters, loss = contest.bare(x)
            optimizer = torch.optim.Adam(parameters, lr=LR, fused=True)
            for _ in range(FOREVER):
                for index in torch.randperm(len(x)).split(contest.batch):
                    batch = x.index_select(0, index)
                    optimizer.zero_grad()
                    loss(batch).backward()
                    optimizer.step()
                    lap()

        return train

    return with_data


def net(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))


def parameters_of(*nets: nn.Module) -> list[nn.Parameter]:
    return [parameter for each in nets for parameter in each.parameters()]


def by_hand(likelihood: str) -> Callable[[Tensor], tuple[list[nn.Parameter], Callable[[Tensor], Tensor]]]:
    """The VAE of this likelihood."""

    def build(_: Tensor) -> tuple[list[nn.Parameter], Callable[[Tensor], Tensor]]:
        encoder, decoder = net(FEATURES, 2 * LATENT), net(LATENT, FEATURES)

        def loss(batch: Tensor) -> Tensor:
            mean, log_scale = encoder(batch).chunk(2, -1)
            scale = log_scale.exp()
            output = decoder(mean + scale * torch.randn_like(scale))
            if likelihood == "bernoulli":
                error = F.binary_cross_entropy_with_logits(output, batch, reduction="sum")
            else:
                error = 0.5 * F.mse_loss(output, batch, reduction="sum")
            kl = 0.5 * (mean.square() + scale.square() - 1 - 2 * log_scale).sum()
            total: Tensor = (error + kl) / len(batch)
            return total

        return parameters_of(encoder, decoder), loss

    return build


def iwae_by_hand(_: Tensor) -> tuple[list[nn.Parameter], Callable[[Tensor], Tensor]]:
    encoder, decoder = net(FEATURES, 2 * LATENT), net(LATENT, FEATURES)

    def loss(batch: Tensor) -> Tensor:
        mean, log_scale = encoder(batch).chunk(2, -1)
        noise = torch.randn(SAMPLES, *mean.shape)
        z = mean + log_scale.exp() * noise
        logits = decoder(z)
        likelihood = (logits * batch).sum(-1) - F.softplus(logits).sum(-1)
        weights = likelihood + 0.5 * (noise.square() - z.square()).sum(-1) + log_scale.sum(-1)
        bound: Tensor = weights.logsumexp(0).mean()
        return -bound

    return parameters_of(encoder, decoder), loss


def hierarchy_by_hand(_: Tensor) -> tuple[list[nn.Parameter], Callable[[Tensor], Tensor]]:
    encoder, up = net(FEATURES, 2 * LATENT), net(FEATURES + LATENT, 2 * TOP)
    down, decoder = net(TOP, 2 * LATENT), net(LATENT + TOP, FEATURES)

    def loss(batch: Tensor) -> Tensor:
        mean, log_scale = encoder(batch).chunk(2, -1)
        noise = torch.randn_like(mean)
        low = mean + log_scale.exp() * noise
        top_mean, top_scale = up(torch.cat([batch, low], -1)).chunk(2, -1)
        top_noise = torch.randn_like(top_mean)
        top = top_mean + top_scale.exp() * top_noise
        prior_mean, prior_scale = down(top).chunk(2, -1)
        error = F.binary_cross_entropy_with_logits(decoder(torch.cat([low, top], -1)), batch, reduction="sum")
        away = ((low - prior_mean) * (-prior_scale).exp()).square()
        kl = (0.5 * (away - noise.square()) + prior_scale - log_scale).sum()
        kl = kl + (0.5 * (top.square() - top_noise.square()) - top_scale).sum()
        total: Tensor = (error + kl) / len(batch)
        return total

    return parameters_of(encoder, up, down, decoder), loss


CONTESTS = {
    **{
        name: Contest(
            "vae", {"latent": LATENT, "likelihood": name}, by_hand(name), ("VAE", {"reconstruction_loss": loss})
        )
        for name, loss in LOSSES.items()
    },
    "iwae": Contest(
        "iwae", {"latent": LATENT, "likelihood": "bernoulli", "importance_samples": SAMPLES}, iwae_by_hand,
        ("IWAE", {"reconstruction_loss": "bce", "number_samples": SAMPLES}), batch=20,
    ),
    "iaf": Contest(
        "flow_vae", {"latent": LATENT, "likelihood": "bernoulli", "flow": "iaf", "transforms": TRANSFORMS},
        by_hand("bernoulli"),
        ("VAE_IAF", {"reconstruction_loss": "bce", "n_made_blocks": TRANSFORMS, "n_hidden_in_made": 1,
                     "hidden_size": HIDDEN}),
    ),
    "hierarchical": Contest(
        "hierarchical_vae", {"latents": (LATENT, TOP), "likelihood": "bernoulli"}, hierarchy_by_hand, None
    ),
}  # fmt: skip
"""The bare loop next to the IAF is that of the plain VAE: what the flow costs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=list(CONTESTS), choices=CONTESTS)
    parser.add_argument("--rounds", type=int, default=60, help="interleaved blocks of each candidate")
    parser.add_argument("--processor-time", action="store_true", help="count that, not the time on the wall")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    machine = f"torch {torch.__version__}, {platform.machine()}, 1 thread"
    print(f"{machine}, {arguments.rounds} interleaved blocks of {STEPS} steps")
    clock = time.process_time if arguments.processor_time else time.perf_counter
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    for title in arguments.models:
        contest = CONTESTS[title]
        x = data(contest.arguments["likelihood"])
        makers = {"deepcanon": ours(contest), "bare loop": bare(contest), "bare loop again": bare(contest)}
        if contest.peer is not None and importlib.util.find_spec("pythae"):
            makers["pythae"] = pythae(contest)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            candidates = {name: Candidate(name, maker(x), clock) for name, maker in makers.items()}
            race(list(candidates.values()), arguments.rounds)
        mine = candidates["deepcanon"]
        print(f"{title:18} {'steps/s':>8}  deepcanon is faster by")
        rows = numbers[title] = {}
        for name, candidate in candidates.items():
            speed, faster = STEPS / statistics.median(candidate.blocks), ratio(candidate, mine)
            rows[name] = {"steps_per_second": round(speed, 1), "deepcanon_faster_by": round(faster, 3)}
            print(f"  {name:16} {speed:8.1f}  {faster:.2f}x")
        control = ratio(candidates["bare loop"], candidates["bare loop again"])
        rows["control"] = {"ratio": round(control, 3)}
        print(f"  A/A control (bare loop against itself): {control:.3f}x", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
