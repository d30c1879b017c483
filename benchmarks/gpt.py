"""GPT compared with Hugging Face's GPT-2 of the same size: training, and generation with a key-value cache.

    python benchmarks/gpt.py [--rounds 7] [--json results.json]

Both have 4 layers, 4 heads, 128 wide, 65 tokens, no dropout, the same initial weights, float32, one thread. A training
step is the loss of 12 windows of 64 tokens, its gradient, clipping and a fused AdamW: ours by the Trainer, theirs by a
plain loop, each in a process of its own. Generation samples 511 tokens after one, batch 1, with a context of 512. The
goals are 1.4 times the tokens per second in training and 2.5 times in generation.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import importlib
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from relay import STEPS, Candidate, race
from side_by_side import interleaved, table
from torch import Tensor, nn

from deepcanon.core import Sequences, Terms
from deepcanon.data import Dataset
from deepcanon.interop.hugging_face import load_gpt2
from deepcanon.models.attention.gpt import GPT
from deepcanon.train import Observer, Trainer
from deepcanon.train.settings import resolve_settings

VOCAB, LAYERS, HEADS, WIDTH = 65, 4, 4, 128
ROWS, LENGTH, LR, FOREVER = 12, 64, 1e-3, 1000
CONTEXT = 512
Lap = Callable[[], None]
transformers: Any = importlib.import_module("transformers")
GOAL = {"train": 1.4, "generate": 2.5}


def pair(length: int) -> tuple[GPT, Any]:
    """Ours and theirs with the same weights."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=length, n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=None,
    )  # fmt: skip
    theirs = transformers.GPT2LMHeadModel(config)
    ours = GPT(VOCAB, length, LAYERS, HEADS, WIDTH)
    load_gpt2(ours, theirs.state_dict())
    return ours, theirs


def ours_trains(windows: Tensor) -> Callable[[Lap], None]:
    """The Trainer, with log and gradient norms."""

    def train(lap: Lap) -> None:
        class Lapper(Observer):
            def step(self, trainer: Trainer, terms: Terms) -> None:
                lap()

        model, _ = pair(LENGTH)
        batch = Sequences(windows, torch.full((len(windows),), LENGTH + 1))
        data = Dataset(name="random", kind="text", train=batch)
        settings = resolve_settings(model.recipe, lr=LR, batch_size=ROWS, epochs=FOREVER)
        Trainer(model, data, settings, quiet=True, observers=[Lapper()]).fit()

    return train


def theirs_trains(windows: Tensor) -> Callable[[Lap], None]:
    """The fastest plain loop: index select and the fused optimizer, nothing logged."""

    def train(lap: Lap) -> None:
        _, model = pair(LENGTH)
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=LR, fused=True)
        for _ in range(FOREVER):
            for index in torch.randperm(len(windows)).split(ROWS):
                chosen = windows.index_select(0, index)
                optimizer.zero_grad()
                logits = model(input_ids=chosen[:, :-1], use_cache=False).logits
                nn.functional.cross_entropy(logits.flatten(0, 1), chosen[:, 1:].flatten()).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lap()

    return train


def training(rounds: int) -> dict[str, list[float]]:
    """Seconds of every block of steps."""
    windows = torch.randint(VOCAB, (100 * ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    makers = {"deepcanon": ours_trains, "Hugging Face": theirs_trains}
    candidates = {name: Candidate(name, maker(windows)) for name, maker in makers.items()}
    race(list(candidates.values()), rounds, warm_up=1)
    return {name: candidate.blocks for name, candidate in candidates.items()}


def generation() -> dict[str, Callable[[], object]]:
    ours, theirs = pair(CONTEXT)
    ours.eval()
    theirs.eval()
    prompt = torch.zeros(1, 1, dtype=torch.long)
    added = CONTEXT - 1
    options = {"max_new_tokens": added, "min_new_tokens": added, "do_sample": True, "top_k": 0, "pad_token_id": 0}
    return {
        "deepcanon": lambda: ours.generate(prompt, added),
        "Hugging Face": lambda: theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **options),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved blocks of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    numbers = {}
    for name, times, tokens in (
        ("train", training(arguments.rounds), STEPS * ROWS * LENGTH),
        ("generate", interleaved(generation(), arguments.rounds, warm_up=1), CONTEXT - 1),
    ):
        numbers[name] = table(f"{name}: {tokens} tokens (goal: {GOAL[name]}x)", times, "deepcanon")
        for row in numbers[name].values():
            row["tokens_per_second"] = round(1e3 * tokens / row["milliseconds"])
        print("  tokens per second:", {who: row["tokens_per_second"] for who, row in numbers[name].items()})
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {platform.machine()}, 1 thread")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
