"""Recurrent language models compared with a plain torch.nn loop: 2 layers of 256, windows of 64 tokens, one thread.

    python benchmarks/recurrent.py [--kind rnn|gru|lstm] [--rounds 12] [--json results.json]

A step takes a batch of windows out of the text, and is loss, gradient and Adam. The plain loop is what one writes with
torch alone: a DataLoader of windows, ``nn.Embedding``, ``nn.LSTM`` (or ``nn.GRU``, ``nn.RNN``), ``nn.Linear``, cross
entropy, Adam. Ours is the trainer's own step on the same data with a model of the same size, in single precision and,
of the LSTM, in bfloat16. The goals are 1.0x the plain loop's tokens per second, and 1.5x in bfloat16. Times are those
of the processor. Then both generate text, one token at a time.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from side_by_side import interleaved, table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from deepcanon.core import Sequences
from deepcanon.core.settings import Precision
from deepcanon.data import Dataset
from deepcanon.models.recurrent.gru import GRU
from deepcanon.models.recurrent.lstm import LSTM
from deepcanon.models.recurrent.rnn import RNN
from deepcanon.train.settings import resolve_settings
from deepcanon.train.trainer import Trainer

VOCAB, EMBEDDING, UNITS, LAYERS = 95, 128, 256, 2
ROWS, LENGTH, WINDOWS = 32, 64, 512
STEPS = 2
TOKENS = 200


KINDS: dict[str, tuple[Any, Any]] = {"rnn": (nn.RNN, RNN), "gru": (nn.GRU, GRU), "lstm": (nn.LSTM, LSTM)}
"""The layers of torch, and our models."""


class Plain(nn.Module):
    """What one writes with torch alone."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, EMBEDDING)
        self.recurrent = KINDS[kind][0](EMBEDDING, UNITS, LAYERS, batch_first=True)
        self.head = nn.Linear(UNITS, VOCAB)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        h, state = self.recurrent(self.embedding(x), state)
        return self.head(h), state


def plain_steps(kind: str, x: Tensor) -> Callable[[], None]:
    model = Plain(kind)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(x), batch_size=ROWS, shuffle=True)

    def forever() -> Iterator[Tensor]:
        while True:
            for (rows,) in loader:
                yield rows

    batches = forever()

    def steps() -> None:
        for _ in range(STEPS):
            rows = next(batches)
            optimizer.zero_grad()
            logits, _ = model(rows[:, :-1])
            loss = cross_entropy(logits.reshape(-1, VOCAB), rows[:, 1:].reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return steps


def our_steps(kind: str, x: Tensor, precision: Precision) -> Callable[[], None]:
    """The trainer's own step: it chooses the batch, plays the turn and clips."""
    data: Dataset[Any] = Dataset(
        name="text", kind="text", train=Sequences(x, torch.full((len(x),), x.shape[1])), sizes={"vocab": VOCAB}
    )
    settings = resolve_settings(KINDS[kind][1].recipe, batch_size=ROWS, steps=10**6, device="cpu", precision=precision)
    trainer = Trainer(KINDS[kind][1](VOCAB, EMBEDDING, UNITS, LAYERS), data, settings, quiet=True)
    indices = trainer._indices()

    def steps() -> None:
        for _ in range(STEPS):
            index = next(indices)
            trainer.step += 1
            trainer._play(index)

    return steps


def plain_text(kind: str) -> Callable[[], None]:
    model = Plain(kind).eval()

    @torch.no_grad()
    def write() -> None:
        token, state = torch.zeros(1, 1, dtype=torch.long), None
        for _ in range(TOKENS):
            logits, state = model(token, state)
            token = torch.multinomial(logits[:, -1].softmax(-1), 1)

    return write


def our_text(kind: str) -> Callable[[], Tensor]:
    model: Any = KINDS[kind][1](VOCAB, EMBEDDING, UNITS, LAYERS).eval()
    return lambda: model.generate(torch.zeros(1, 1, dtype=torch.long), TOKENS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--kind", choices=list(KINDS), default="lstm", help="the kind of network")
    parser.add_argument("--rounds", type=int, default=12, help="interleaved blocks of steps of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randint(VOCAB, (WINDOWS, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    candidates = {
        "deepcanon": our_steps(arguments.kind, x, "fp32"),
        **({"deepcanon, bf16": our_steps(arguments.kind, x, "bf16")} if arguments.kind == "lstm" else {}),
        "plain torch loop": plain_steps(arguments.kind, x),
        "deepcanon again": our_steps(arguments.kind, x, "fp32"),
    }
    times = interleaved(candidates, arguments.rounds, warm_up=1, clock=time.process_time)
    per_step = {name: [seconds / STEPS for seconds in column] for name, column in times.items()}
    title = f"a training step of {arguments.kind}, {ROWS} x {LENGTH} tokens, {LAYERS} layers of {UNITS}"
    numbers = {"train": table(title, per_step, "deepcanon")}
    for name, column in per_step.items():
        print(f"  {name:32} {ROWS * LENGTH / statistics.median(column):10,.0f} tokens per second")
    for name, goal in (("deepcanon", 1.0), ("deepcanon, bf16", 1.5)):
        if name not in per_step:
            continue
        pairs = zip(per_step["plain torch loop"], per_step[name], strict=True)
        ratio = statistics.median(plain / ours for plain, ours in pairs)
        print(f"  {name}: {ratio:.2f}x the plain loop; the goal is {goal}x")
    writing = interleaved(
        {"deepcanon": our_text(arguments.kind), "plain torch loop": plain_text(arguments.kind)},
        arguments.rounds,
        warm_up=1,
        clock=time.process_time,
    )
    each = {name: [seconds / TOKENS for seconds in column] for name, column in writing.items()}
    numbers["generate"] = table("one generated token, batch of 1", each, "deepcanon")
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, bfloat16 in hardware: "
          f"{bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())}")  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
