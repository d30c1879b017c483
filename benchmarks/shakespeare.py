"""A language model of tiny Shakespeare compared with Markov chains: nats per character over the validation split.

    deepcanon train gpt --data shakespeare --batch-size 12 --steps 2000 --seed 0 --threads 1 --out RUN
    python benchmarks/shakespeare.py RUN [--json results.json]

The model predicts every character of a window of 64 from those before it in the window. A chain of order k has the k
characters before it, across windows, which favors it a little; it is smoothed by the chain of the order below after
Witten and Bell, which has no setting to be chosen. The goal for GPT so trained is at most 1.90 nats per character.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.data import load_data
from deepcanon.data.text.windows import stream
from deepcanon.models.autoregressive.markov_chain import MarkovChain
from deepcanon.train.evaluation import evaluate

ORDERS = range(6)
GOAL = 1.90


def chains(train: Tensor, held_out: Tensor, vocab: int) -> list[float]:
    """The nats per token of the held-out text under the chain of each order; the first token is given."""
    chain = MarkovChain.of(train.unsqueeze(0), torch.tensor([len(train)]), vocab, ORDERS[-1])
    return [-float(nats[:, 1:].mean()) for nats in chain.log_probs_by_order(held_out.unsqueeze(0))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("run", nargs="?", type=Path, help="the folder of a trained run; without it, the chains alone")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    data = load_data("shakespeare")
    train, valid = (stream(data.split(part)) for part in ("train", "valid"))
    numbers = {
        f"Markov chain of order {order}": nats
        for order, nats in zip(ORDERS, chains(train, valid, data.sizes["vocab"]), strict=True)
    }
    if arguments.run is not None:
        model = dc.load(arguments.run)
        numbers[f"{model.name()} of {arguments.run} (goal: {GOAL:.2f})"] = evaluate(model, data.split("valid"))["loss"]
    print(f"nats per character over {len(valid) - 1:,} characters")
    for name, nats in numbers.items():
        print(f"  {name:50} {nats:.4f}   (perplexity {math.exp(nats):.2f})")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
