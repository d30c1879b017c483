"""A training step of the DCGAN compared with the usual PyTorch example: 1x32x32 images, batches of 64, one thread.

    python benchmarks/dcgan.py [--rounds 8] [--json results.json]

Both have the same networks (64 channels, then 128, noise of 64, batch normalization) and Adam with the same settings.
The example is the training loop of the DCGAN that PyTorch publishes, written anew here: binary cross-entropy of
sigmoids with labels, one batch of samples for both players, two backward passes for the discriminator, and gradients of
the discriminator that the generator's step computes and nobody uses. Ours is the model in our trainer. The last
candidate is the example with a fused Adam, the one before ours again, as a control. Processor time.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import relay
import torch
from relay import Candidate, race, ratio
from torch import nn

import deepcanon as dc

SIDE, BATCH, LATENT, HIDDEN = 32, 64, 64, (64, 128)
relay.STEPS = 4


def ours(x: torch.Tensor) -> Callable[[Callable[[], None]], None]:
    def train(lap: Callable[[], None]) -> None:
        torch.manual_seed(0)
        model: Any = dc.find("dcgan")(channels=1, height=SIDE, width=SIDE, latent=LATENT, hidden=HIDDEN)
        play = model.loss

        def loss(batch: Any) -> Any:
            lap()  # the generator's loss is computed once in each step
            return play(batch)

        model.loss = loss
        dc.fit(model, dc.data.of(x), epochs=10_000, batch_size=BATCH, quiet=True, schedule="constant", lr=2e-4)

    return train


def example(x: torch.Tensor, fused: bool) -> Callable[[Callable[[], None]], None]:
    def train(lap: Callable[[], None]) -> None:
        torch.manual_seed(0)
        a, b = HIDDEN
        inner = SIDE // 4
        generator = nn.Sequential(
            nn.Linear(LATENT, b * inner**2, bias=False), nn.Unflatten(1, (b, inner, inner)),
            nn.BatchNorm2d(b), nn.ReLU(True), nn.ConvTranspose2d(b, a, 4, 2, 1, bias=False),
            nn.BatchNorm2d(a), nn.ReLU(True), nn.ConvTranspose2d(a, 1, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip
        discriminator = nn.Sequential(
            nn.Conv2d(1, a, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True),
            nn.Flatten(), nn.Linear(b * inner**2, 1), nn.Sigmoid(),
        )  # fmt: skip
        criterion = nn.BCELoss()
        adam = [
            torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=fused or None)
            for net in (discriminator, generator)
        ]
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(2 * x - 1), BATCH, shuffle=True)
        while True:
            for (real,) in loader:
                lap()
                discriminator.zero_grad()
                label = torch.full((len(real),), 1.0)
                criterion(discriminator(real).view(-1), label).backward()
                fake = generator(torch.randn(len(real), LATENT))
                criterion(discriminator(fake.detach()).view(-1), torch.zeros_like(label)).backward()
                adam[0].step()
                generator.zero_grad()
                criterion(discriminator(fake).view(-1), label).backward()
                adam[1].step()

    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=8, help="interleaved blocks of steps of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    x = torch.rand(40 * BATCH, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    candidates = {
        name: Candidate(name, train, time.process_time)
        for name, train in (
            ("ours", ours(x)),
            ("the example", example(x, fused=False)),
            ("ours again", ours(x)),
            ("the example with a fused Adam", example(x, fused=True)),
        )
    }
    race(list(candidates.values()), arguments.rounds, warm_up=2)
    numbers = {name: round(ratio(candidate, candidates["ours"]), 3) for name, candidate in candidates.items()}
    for name, factor in numbers.items():
        print(f"  {name:32} ours is faster by {factor:.2f}x")
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, processor time; the goal is 1.3x")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
