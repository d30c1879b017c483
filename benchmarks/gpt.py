"""GPT compared with nanoGPT and with Hugging Face's GPT-2 of the same size: training, and generation with a cache.

    python benchmarks/gpt.py [--rounds 7] [--layers 4 --heads 4 --width 128] [--json results.json]

All have 4 layers, 4 heads, 128 wide unless other sizes are given, 65 tokens, no dropout, the same initial weights,
float32, one thread. A training step is the loss of 12 windows of 64 tokens, its gradient, clipping and a fused AdamW:
ours by the Trainer, theirs by a plain loop, each in a process of its own, whose CPU time is measured. GPT-2 has the
GELU by its tanh formula, nanoGPT exactly; ours is raced with both. Generation samples 511 tokens after one, batch 1,
with a context of 512.
The goals are, in training, 1.4 times the tokens per second of Hugging Face and 1.0 times those of nanoGPT, by ours with
the same GELU, and in generation 2.5 times those of Hugging Face.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import importlib
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from plain_gpt import PlainGPT
from relay import STEPS, Candidate, race
from side_by_side import interleaved, table
from torch import Tensor, nn

from deepcanon.core import Sequences, Terms
from deepcanon.data import Dataset
from deepcanon.interop.hugging_face import load_gpt2, to_gpt2
from deepcanon.models.attention.gpt import GPT
from deepcanon.train import Observer, Trainer
from deepcanon.train.settings import resolve_settings

VOCAB = 65
ROWS, LENGTH, LR, FOREVER = 12, 64, 1e-3, 1000
CONTEXT = 512
Lap = Callable[[], None]
transformers: Any = importlib.import_module("transformers")
GOAL = {
    "train": "1.4x Hugging Face, and 1.0x nanoGPT by deepcanon, gelu",
    "generate": "2.5x Hugging Face",
}
Sizes = tuple[int, int, int]
"""Layers, heads and width."""


def pair(length: int, sizes: Sizes) -> tuple[GPT, Any]:
    """Ours and Hugging Face's with the same weights."""
    torch.manual_seed(0)
    layers, heads, width = sizes
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=length, n_layer=layers, n_head=heads, n_embd=width,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=None,
    )  # fmt: skip
    theirs = transformers.GPT2LMHeadModel(config)
    ours = GPT(VOCAB, length, layers, heads, width, activation="gelu_tanh")
    load_gpt2(ours, theirs.state_dict())
    return ours, theirs


def exact(ours: GPT) -> GPT:
    """The same model with the exact GELU."""
    model = GPT(**{**ours.hparams, "activation": "gelu"})
    model.load_state_dict(ours.state_dict())
    return model


def plain(ours: GPT) -> PlainGPT:
    """The same model as nanoGPT has it."""
    sizes = ours.hparams
    model = PlainGPT(VOCAB, sizes["length"], sizes["layers"], sizes["heads"], sizes["embedding"])
    weights = {name: w.T if w.ndim == 2 and ".c_" in name else w for name, w in to_gpt2(ours).items()}
    model.load_state_dict(weights)
    return model


def ours_trains(windows: Tensor, sizes: Sizes, gelu: str) -> Callable[[Lap], None]:
    """The Trainer, with log and gradient norms."""

    def train(lap: Lap) -> None:
        class Lapper(Observer):
            def step(self, trainer: Trainer, terms: Terms) -> None:
                lap()

        model, _ = pair(LENGTH, sizes)
        model = model if gelu == "gelu_tanh" else exact(model)
        batch = Sequences(windows, torch.full((len(windows),), LENGTH + 1))
        data = Dataset(name="random", kind="text", train=batch)
        settings = resolve_settings(model.recipe, lr=LR, batch_size=ROWS, epochs=FOREVER)
        Trainer(model, data, settings, quiet=True, observers=[Lapper()]).fit()

    return train


def theirs_trains(windows: Tensor, sizes: Sizes, who: str) -> Callable[[Lap], None]:
    """The fastest plain loop: index select and the fused optimizer, nothing logged."""

    def train(lap: Lap) -> None:
        ours, model = pair(LENGTH, sizes)
        if who == "nanoGPT":
            model = plain(ours)
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=LR, fused=True)
        for _ in range(FOREVER):
            for index in torch.randperm(len(windows)).split(ROWS):
                chosen = windows.index_select(0, index)
                optimizer.zero_grad()
                if who == "nanoGPT":
                    loss = model(chosen[:, :-1], chosen[:, 1:])
                else:
                    logits = model(input_ids=chosen[:, :-1], use_cache=False).logits
                    loss = nn.functional.cross_entropy(logits.flatten(0, 1), chosen[:, 1:].flatten())
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lap()

    return train


def check(windows: Tensor, sizes: Sizes) -> None:
    """All give the same loss, so that they race with the same work."""
    ours, theirs = pair(LENGTH, sizes)
    batch = Sequences(windows[:ROWS], torch.full((ROWS,), LENGTH + 1))
    logits = theirs(input_ids=batch.x[:, :-1]).logits
    tanh = nn.functional.cross_entropy(logits.flatten(0, 1), batch.x[:, 1:].flatten())
    torch.testing.assert_close(ours.loss(batch)["nll"], tanh, rtol=1e-5, atol=1e-5)
    by_nano = plain(ours)(batch.x[:, :-1], batch.x[:, 1:])
    torch.testing.assert_close(exact(ours).loss(batch)["nll"], by_nano, rtol=1e-5, atol=1e-5)


def training(rounds: int, sizes: Sizes) -> dict[str, list[float]]:
    """Seconds of every block of steps."""
    windows = torch.randint(VOCAB, (100 * ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    check(windows, sizes)
    loops = {
        "deepcanon": ours_trains(windows, sizes, "gelu_tanh"),
        "deepcanon, gelu": ours_trains(windows, sizes, "gelu"),
        "nanoGPT": theirs_trains(windows, sizes, "nanoGPT"),
        "Hugging Face": theirs_trains(windows, sizes, "Hugging Face"),
    }
    candidates = {name: Candidate(name, loop, time.process_time) for name, loop in loops.items()}
    race(list(candidates.values()), rounds, warm_up=1)
    return {name: candidate.blocks for name, candidate in candidates.items()}


def generation(sizes: Sizes) -> dict[str, Callable[[], object]]:
    ours, theirs = pair(CONTEXT, sizes)
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
    for name, default in (("layers", 4), ("heads", 4), ("width", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    sizes = (arguments.layers, arguments.heads, arguments.width)
    numbers = {}
    for name, times, tokens in (
        ("train", training(arguments.rounds, sizes), STEPS * ROWS * LENGTH),
        ("generate", interleaved(generation(sizes), arguments.rounds, warm_up=1), CONTEXT - 1),
    ):
        numbers[name] = table(f"{name}: {tokens} tokens (goal: {GOAL[name]})", times, "deepcanon")
        for row in numbers[name].values():
            row["tokens_per_second"] = round(1e3 * tokens / row["milliseconds"])
        if name == "train":
            factor = statistics.median(a / b for a, b in zip(times["nanoGPT"], times["deepcanon, gelu"], strict=True))
            print(f"  deepcanon, gelu, is {factor:.3f} times as fast as nanoGPT")
        print("  tokens per second:", {who: row["tokens_per_second"] for who, row in numbers[name].items()})
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {platform.machine()}, 1 thread")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
