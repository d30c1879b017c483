"""A training step of an energy-based model compared with torchebm: 60 Langevin steps, float32, one thread.

    python benchmarks/ebm.py [--rounds 15] [--steps 60] [--batch 256] [--json results.json]

Both train the same network of two features and two hidden layers of 64 by contrastive divergence, with a replay buffer
of 2,048 chains of which 5 % begin anew, a penalty on the energies, and the same Adam. torchebm is run as its
documentation has it: ``pip install --no-deps torchebm``. Steps are interleaved, in processor time.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
from side_by_side import interleaved, table
from torch import Tensor
from torchebm.core import BaseModel
from torchebm.losses import ContrastiveDivergence
from torchebm.samplers import LangevinDynamics

from deepcanon.core import Batch
from deepcanon.models.energy.ebm import EBM
from deepcanon.nn.dense import dense

BUFFER, STEP_SIZE = 2048, 0.2


class Network(BaseModel):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.net = dense(2, 1, (64, 64), activation="silu")

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.net(x).squeeze(-1)
        return found


def ours(x: Tensor, steps: int) -> Callable[[], None]:
    torch.manual_seed(0)
    model = EBM(2, langevin_steps=steps, step_size=STEP_SIZE, buffer_size=BUFFER)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        torch.stack([*model.loss(Batch(x)).values()]).sum().backward()
        optimizer.step()

    return step


def torchebm(x: Tensor, steps: int) -> Callable[[], None]:
    torch.manual_seed(0)
    model = Network()
    sampler = LangevinDynamics(model, step_size=STEP_SIZE**2 / 2)
    loss = ContrastiveDivergence(model, sampler, k_steps=steps, persistent=True, buffer_size=BUFFER)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        value, _ = loss(x)
        value.backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved steps of each candidate")
    parser.add_argument("--steps", type=int, default=60, help="Langevin steps of a training step")
    parser.add_argument("--batch", type=int, default=256, help="examples of a batch")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    x = torch.randn(arguments.batch, 2, generator=torch.Generator().manual_seed(0))
    candidates = {"deepcanon": ours(x, arguments.steps), "torchebm": torchebm(x, arguments.steps)}
    times = interleaved(candidates, arguments.rounds, clock=time.process_time)
    title = f"a training step with {arguments.steps} Langevin steps, batch {arguments.batch}, processor time"
    numbers = {
        "step": table(title, times, "deepcanon"),
        "machine": {
            "processor": platform.processor(),
            "torch": torch.__version__,
            "torchebm": version("torchebm"),
        },
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main()
