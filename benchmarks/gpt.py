"""GPT compared with nanoGPT and with Hugging Face's GPT-2 of the same size: training, and generation with a cache.

    python benchmarks/gpt.py [--part train] [--steps 200] [--layers 4 --heads 4 --width 128] [--json results.json]

All have 4 layers, 4 heads, 128 wide unless other sizes are given, 65 tokens, no dropout, the same initial weights,
float32, one thread. A training step is the loss of 12 windows of 64 tokens, its gradient, clipping and a fused AdamW:
ours by the Trainer, theirs by a plain loop. GPT-2 has the GELU by its tanh formula, nanoGPT exactly; ours trains
against each with the same GELU. After every step of ours each of the others takes one, in one process, so that all see
the same machine, and the allocator as our Trainer sets it; what counts is the median of the ratios of neighbors, in
processor time. nanoGPT takes part twice: what its two copies differ by is the error of this measurement. Generation
samples 511 tokens after one, batch 1, with a context of 512, in processor time, too.
The goals are, in training, 1.4 times the tokens per second of Hugging Face and 1.0 times those of nanoGPT, and in
generation 2.5 times those of Hugging Face.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import importlib
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from plain_gpt import PlainGPT, plain
from relay import Over
from side_by_side import Times, interleaved, quartiles, table
from torch import Tensor, nn

from deepcanon.core import Sequences, Terms
from deepcanon.data import Dataset
from deepcanon.interop.hugging_face import load_gpt2
from deepcanon.models.attention.gpt import GPT
from deepcanon.train import Observer, Trainer
from deepcanon.train.settings import resolve_settings

VOCAB = 65
ROWS, LENGTH, LR, FOREVER = 12, 64, 1e-3, 1000
CONTEXT = 512
WARM_UP = 10
Step = Callable[[], None]
transformers: Any = importlib.import_module("transformers")
GOAL = {"nanoGPT": "1.0x", "Hugging Face": "1.4x", "generate": "2.5x"}
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


class Alternation(Observer):
    """After each step of ours, a step of every other, in an order that is reversed from step to step; and their times.

    The time of ours is all that passes between: the step, the log, and the choice of the next batch.
    """

    def __init__(self, others: Mapping[str, Step], steps: int) -> None:
        self.others, self.steps = others, steps
        self.times: Times = {name: [] for name in ("deepcanon", *others)}
        self.begun = time.process_time()

    def step(self, trainer: Trainer, terms: Terms) -> None:
        self._record("deepcanon")
        for name in self.others if trainer.step % 2 else reversed(list(self.others)):
            self.others[name]()
            self._record(name)
        if trainer.step == WARM_UP + self.steps:
            raise Over

    def _record(self, name: str) -> None:
        self.times[name].append(time.process_time() - self.begun)
        self.begun = time.process_time()


def alternating(model: GPT, windows: Tensor, others: Mapping[str, Step], steps: int) -> Times:
    """Seconds of every step of our Trainer, with log and gradient norms, and of the others."""
    batch = Sequences(windows, torch.full((len(windows),), LENGTH + 1))
    data = Dataset(name="random", kind="text", train=batch)
    settings = resolve_settings(model.recipe, lr=LR, batch_size=ROWS, epochs=FOREVER)
    alternation = Alternation(others, steps)
    with suppress(Over):
        Trainer(model, data, settings, quiet=True, observers=[alternation]).fit()
    return {name: seconds[WARM_UP:] for name, seconds in alternation.times.items()}


def plain_loop(model: Any, windows: Tensor) -> Step:
    """A step of the fastest plain loop: index select and the fused optimizer, nothing logged."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, fused=True)
    order: list[Tensor] = []

    def step() -> None:
        if not order:
            order.extend(torch.randperm(len(windows)).split(ROWS))
        chosen = windows.index_select(0, order.pop())
        optimizer.zero_grad()
        nll_of(model, chosen).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def nll_of(model: Any, chosen: Tensor) -> Tensor:
    """The loss of either of the other libraries."""
    if isinstance(model, PlainGPT):
        loss: Tensor = model(chosen[:, :-1], chosen[:, 1:])
        return loss
    logits = model(input_ids=chosen[:, :-1], use_cache=False).logits
    return nn.functional.cross_entropy(logits.flatten(0, 1), chosen[:, 1:].flatten())


def check(windows: Tensor, sizes: Sizes) -> None:
    """All give the same loss by as many parameters, so that they do the same work."""
    tanh, theirs = pair(LENGTH, sizes)
    batch = Sequences(windows[:ROWS], torch.full((ROWS,), LENGTH + 1))
    for ours, other in ((tanh, theirs), (exact(tanh), plain(tanh))):
        torch.testing.assert_close(ours.loss(batch)["nll"], nll_of(other, batch.x), rtol=1e-5, atol=1e-5)
        counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (ours, other)]
        assert counts[0] == counts[1], counts


def training(steps: int, sizes: Sizes) -> Iterator[tuple[str, Times]]:
    """One after the other, the name of another library, and the seconds of every step of ours and of its."""
    windows = torch.randint(VOCAB, (100 * ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    check(windows, sizes)
    tanh, hugging_face = pair(LENGTH, sizes)
    copies = {name: plain_loop(plain(tanh), windows) for name in ("nanoGPT", "nanoGPT again")}
    yield "nanoGPT", alternating(exact(tanh), windows, copies, steps)
    other = {"Hugging Face": plain_loop(hugging_face, windows)}
    yield "Hugging Face", alternating(tanh, windows, other, steps)


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
    parser.add_argument("--part", choices=("train", "generate"), help="only one of both")
    parser.add_argument("--steps", type=int, default=200, help="training steps of each candidate")
    parser.add_argument("--rounds", type=int, default=7, help="generated texts of each candidate")
    for name, default in (("layers", 4), ("heads", 4), ("width", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    sizes = (arguments.layers, arguments.heads, arguments.width)
    numbers = {}
    if arguments.part != "generate":
        for other, times in training(arguments.steps, sizes):
            title = f"train: {ROWS * LENGTH} tokens, with the GELU of {other} (goal: {GOAL[other]})"
            numbers[f"train, {other}"] = table(title, times, "deepcanon")
            if "nanoGPT again" in times:
                ours = quartiles(times["nanoGPT"], times["deepcanon"])
                control = quartiles(times["nanoGPT"], times["nanoGPT again"])
                print(
                    f"  {ours[1]:.3f} times as fast as nanoGPT; nanoGPT as nanoGPT again, the control: {control[1]:.3f}"
                )
    if arguments.part != "train":
        times = interleaved(generation(sizes), arguments.rounds, warm_up=1, clock=time.process_time)
        numbers["generate"] = table(f"generate: {CONTEXT - 1} tokens (goal: {GOAL['generate']})", times, "deepcanon")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {platform.machine()}, 1 thread")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
