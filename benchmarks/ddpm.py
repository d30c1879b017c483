"""DDPM compared with the usual diffusers loop with the same network: training steps and sampling, one thread.

    python benchmarks/ddpm.py [--rounds 20] [--network unet] [--processor-time]

The peer is the loop of diffusers' own training example: its scheduler's ``add_noise``, a mean squared error, AdamW, and
its ``EMAModel``; it samples by its scheduler's ``step``. Ours is the model with its turn and the fused optimizer of our
trainer. Of images, 1x28x28, the network is a U-Net; the peer's is diffusers' own, of the same layers and as many
parameters. Blocks are interleaved in one process; medians. ``pip install -c constraints.txt -e '.[bench]'``.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import copy
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import diffusers
import torch
from diffusers import DDPMScheduler
from diffusers.training_utils import EMAModel
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch
from deepcanon.optim import optimizer

FEATURES, TIMESTEPS, BATCH, SAMPLES, STEPS = 64, 200, 128, 64, 5
UNET = (32, 64)
"""The channels of the U-Net at each resolution."""


def ours(model: Any, x: Tensor, fused: bool) -> Callable[[], None]:
    parameters = list(model.net.parameters())
    adam = optimizer("adamw", parameters, 1e-3) if fused else torch.optim.AdamW(parameters, lr=1e-3)
    (turn,) = model.turns()

    def train() -> None:
        for _ in range(STEPS):
            adam.zero_grad()
            sum(turn.loss(Batch(x)).values()).backward()
            adam.step()
            turn.after()

    return train


def peers(net: nn.Module, x: Tensor, scheduler: Any) -> Callable[[], None]:
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3)
    average = EMAModel(net.parameters(), decay=0.999)

    def train() -> None:
        for _ in range(STEPS):
            noise = torch.randn_like(x)
            t = torch.randint(0, TIMESTEPS, (len(x),))
            loss = nn.functional.mse_loss(net(scheduler.add_noise(x, noise, t), t * (1000 / TIMESTEPS)), noise)
            loss.backward()
            adam.step()
            average.step(net.parameters())
            adam.zero_grad()

    return train


def peers_sample(net: nn.Module, scheduler: Any, shape: torch.Size) -> Callable[[], None]:
    @torch.no_grad()
    def sample() -> None:
        x = torch.randn(SAMPLES, *shape)
        scheduler.set_timesteps(TIMESTEPS)
        for t in scheduler.timesteps:
            x = scheduler.step(net(x, t.reshape(1) * (1000 / TIMESTEPS)), t, x).prev_sample

    return sample


class Sample(nn.Module):
    """The U-Net of diffusers with its answer unpacked, as its pipelines do."""

    def __init__(self) -> None:
        super().__init__()
        self.net: Any = diffusers.UNet2DModel(
            in_channels=1, out_channels=1, block_out_channels=UNET, norm_num_groups=8, attention_head_dim=8,
            down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
        )  # fmt: skip

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        answer: Tensor = self.net(x, t, return_dict=False)[0]
        return answer


def main() -> None:
    global TIMESTEPS, SAMPLES, STEPS
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved blocks of each candidate")
    parser.add_argument("--network", choices=["mlp", "unet"], default="mlp", help="the network of both")
    parser.add_argument("--processor-time", action="store_true", help="count that, not the time on the wall")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ddpm: Any = dc.find("ddpm")
    net: nn.Module
    if arguments.network == "unet":
        TIMESTEPS, SAMPLES, STEPS = 10, 16, 1
        x = torch.randn(16, 1, 28, 28)
        sizes = {"features": 784, "channels": 1, "height": 28, "width": 28, "network": "unet", "hidden": UNET}
        model, net = ddpm(**sizes, timesteps=TIMESTEPS, noise="linear", prediction="noise"), Sample()
    else:
        x = torch.randn(BATCH, FEATURES)
        model = ddpm(features=FEATURES, timesteps=TIMESTEPS, noise="linear")
        net = copy.deepcopy(model.net)
    schedulers: Any = DDPMScheduler
    scheduler = schedulers(TIMESTEPS, beta_start=0.1 / TIMESTEPS, beta_end=20 / TIMESTEPS, clip_sample=False)
    works = {
        "step, same AdamW": (ours(copy.deepcopy(model), x, fused=False), peers(copy.deepcopy(net), x, scheduler)),
        "step, as it comes": (ours(copy.deepcopy(model), x, fused=True), peers(copy.deepcopy(net), x, scheduler)),
        f"{SAMPLES} samples": (lambda: model.sample(SAMPLES), peers_sample(net, scheduler, x.shape[1:])),
    }
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, {arguments.rounds} interleaved rounds")
    print(f"{sum(p.numel() for p in net.parameters()):,} parameters, {TIMESTEPS} timesteps")
    clock = time.process_time if arguments.processor_time else time.perf_counter
    for work, candidates in works.items():
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(2 + arguments.rounds):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                start = clock()
                candidates[which]()
                times[which].append(clock() - start)
        mine, theirs = (found[2:] for found in times)  # the first rounds warm up
        ratio = statistics.median(b / a for a, b in zip(mine, theirs, strict=True))
        per = STEPS if work.startswith("step") else 1
        each = [1e3 * statistics.median(found) / per for found in (mine, theirs)]
        print(f"{work:18} deepcanon {each[0]:8.2f} ms  diffusers {each[1]:8.2f} ms  faster by {ratio:.2f}x")


if __name__ == "__main__":
    main()
