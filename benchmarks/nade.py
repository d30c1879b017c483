"""A training step of NADE compared with loops over its inputs: 784 inputs, 500 hidden units, float32, one thread.

    python benchmarks/nade.py [--rounds 10] [--json results.json]

A step is the loss, its gradient and Adam. The plain loop is the recurrence of the paper, with ``weight[d]`` in
every step; the careful loop takes the rows apart once, which spares autograd a full matrix of zeros at every step.
The inputs are as dense as binarized MNIST, 13 % of ones; on denser data ours takes longer, the loops do not.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path

import torch
from side_by_side import interleaved, table
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from deepcanon.core import Batch
from deepcanon.models.autoregressive.nade import NADE

FEATURES, UNITS, INK = 784, 500, 0.13
STEPS = 3


def plain_loop(model: NADE, x: Tensor) -> Tensor:
    a, logits = model.hidden_bias.expand(len(x), -1), []
    for d in range(FEATURES):
        logits.append(model.visible_bias[d] + a.sigmoid() @ model.readout[d])
        a = a + torch.outer(x[:, d], model.weight[d])
    return torch.stack(logits, 1)


def careful_loop(model: NADE, x: Tensor) -> Tensor:
    a, logits = model.hidden_bias.expand(len(x), -1), []
    for value, weight, readout in zip(x.unbind(1), model.weight.unbind(0), model.readout.unbind(0), strict=True):
        logits.append(a.sigmoid() @ readout)
        a = a + torch.outer(value, weight)
    return torch.stack(logits, 1) + model.visible_bias


def block(x: Tensor, logits: Callable[[NADE, Tensor], Tensor] | None = None) -> Callable[[], None]:
    """A few training steps on ``x``, by the model's own loss or by a loop that gives the logits."""
    torch.manual_seed(0)
    model = NADE(FEATURES, UNITS)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            if logits is None:
                loss = model.loss(Batch(x))["nll"]
            else:
                loss = binary_cross_entropy_with_logits(logits(model, x), x, reduction="none").sum(1).mean()
            loss.backward()
            optimizer.step()

    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=10, help="interleaved blocks of steps of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    numbers = {}
    for batch in (100, 10):
        x = (torch.rand(batch, FEATURES, generator=torch.Generator().manual_seed(0)) < INK).float()
        candidates = {
            "deepcanon": block(x),
            "plain loop": block(x, plain_loop),
            "careful loop": block(x, careful_loop),
            "deepcanon again": block(x),
        }
        times = interleaved(candidates, arguments.rounds, warm_up=1)
        per_step = {name: [seconds / STEPS for seconds in column] for name, column in times.items()}
        title = f"batch of {batch}, {FEATURES} inputs, {UNITS} hidden units: one training step"
        numbers[str(batch)] = table(title, per_step, "deepcanon")
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
