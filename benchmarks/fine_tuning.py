"""A training step of GPT with low-rank updates and with bottleneck adapters compared with peft, on one thread.

    python benchmarks/fine_tuning.py [--rounds 20] [--layers 4] [--width 128] [--rank 4] [--json results.json]

All candidates wrap one and the same GPT, 12 rows of 64 tokens: every linear layer of its blocks is adapted, all else is
frozen. ``lora`` and peft's LoRA have equal updates, which is checked by their losses; a step is the loss, its gradient
and AdamW, ours with torch's fused form and with linear layers as the Trainer has both, peft's as its documentation has
it and with the fused one. peft has no bottleneck adapters: next to ours, of as many units as the updates have ranks and
with neither head nor norms trained, stands its LoRA. The times are those of the processor.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import copy
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from side_by_side import interleaved, table
from torch import nn

from deepcanon.core import Sequences
from deepcanon.core.fast_product import fast_linear_layers
from deepcanon.methods.adapters import Adapters
from deepcanon.methods.lora import LoRA
from deepcanon.models.attention.gpt import GPT

VOCAB, LENGTH, ROWS, STEPS = 65, 64, 12, 5


def steps(model: nn.Module, loss: Callable[[], torch.Tensor], fused: bool) -> Callable[[], None]:
    """Some training steps of what is not frozen."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, fused=fused)

    def run() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds of each candidate")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rank", type=int, default=4, help="of the updates, and the units of adapters")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    import peft

    torch.manual_seed(0)
    base = GPT(VOCAB, LENGTH, asked.layers, 4, asked.width)
    batch = Sequences(torch.randint(VOCAB, (ROWS, LENGTH + 1)), torch.full((ROWS,), LENGTH + 1))
    linear = [name for name, layer in base.named_modules() if isinstance(layer, nn.Linear)]

    def of_peft(fused: bool) -> tuple[nn.Module, Callable[[], None]]:
        plain = copy.deepcopy(base)
        config: Any = peft.LoraConfig(r=asked.rank, lora_alpha=2 * asked.rank, target_modules=linear)
        wrapped = peft.get_peft_model(plain, config)
        return wrapped, steps(wrapped, lambda: plain.loss(batch)["nll"], fused)

    lora: LoRA[Any] = LoRA(copy.deepcopy(base), asked.rank, 2.0 * asked.rank, tuple(linear))
    adapters: Adapters[Any] = Adapters(copy.deepcopy(base), asked.rank, tuple(linear[:-1]), head=False, norms=False)
    theirs, their_steps = of_peft(fused=False)
    same_loss(lora, theirs, batch)
    candidates = {
        "lora": steps(lora, lambda: lora.loss(batch)["nll"], fused=True),
        "adapters": steps(adapters, lambda: adapters.loss(batch)["nll"], fused=True),
        "peft, LoRA": their_steps,
        "peft, LoRA, fused AdamW": of_peft(fused=True)[1],
    }
    print(f"torch {torch.__version__}, peft {peft.__version__}, {platform.machine()}, {STEPS} steps at a time")
    with fast_linear_layers(lora), fast_linear_layers(adapters):
        times = interleaved(candidates, asked.rounds, clock=time.process_time)
    title = f"GPT, {asked.layers} layers of {asked.width}, rank {asked.rank} (aim: 1.2x of peft)"
    numbers = {ours: table(f"{title}: {ours}", times, ours) for ours in ("lora", "adapters")}
    if asked.json:
        asked.json.write_text(json.dumps(numbers, indent=1) + "\n")


def same_loss(ours: LoRA[Any], theirs: nn.Module, batch: Sequences) -> None:
    """Check that equal updates give equal losses; the updates are then zero again."""
    factors = {name: value for name, value in theirs.named_parameters() if "lora_" in name}
    with torch.no_grad():
        for name in ours.adapted:
            update = ours.model.get_submodule(f"{name}.parametrizations.weight.0")
            for kind, part in (("lora_A", "down"), ("lora_B", "up")):
                value = factors[f"base_model.model.{name}.{kind}.default.weight"]
                value.normal_(std=0.05)
                update.get_parameter(part).copy_(value)
        losses = [ours.loss(batch)["nll"], theirs.base_model.model.loss(batch)["nll"]]  # type: ignore[operator,union-attr]
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-5)
        for name, value in factors.items():
            if "lora_B" in name:
                value.zero_()
        for name in ours.adapted:
            ours.model.get_parameter(f"{name}.parametrizations.weight.0.up").zero_()


if __name__ == "__main__":
    main()
