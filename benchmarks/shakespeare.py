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

import numpy as np
from numpy.typing import NDArray

import deepcanon as dc
from deepcanon.data import load_data
from deepcanon.data.text.windows import stream
from deepcanon.train.evaluation import evaluate

Codes = NDArray[np.int64]
ORDERS = range(6)
GOAL = 1.90


def chains(train: Codes, held_out: Codes, vocab: int) -> list[float]:
    """The nats per token of the held-out text under the chain of each order.

    With n the count of a token in its context, N the count of the context and D how many different tokens followed
    it: p_k = (n + D p_{k-1}) / (N + D), which begins at p_{-1} = 1 / vocab. An unknown context keeps p_{k-1}.
    """
    share = np.full(len(held_out), 1 / vocab)
    scores = []
    for order in ORDERS:
        known, wanted = grams(train, order, vocab), grams(held_out, order, vocab)
        words, counts = np.unique(known, return_counts=True)
        contexts, first, different = np.unique(words // vocab, return_index=True, return_counts=True)
        totals = np.add.reduceat(counts, first)
        n = looked_up(words, counts, wanted)
        context = wanted // vocab
        big, kinds = looked_up(contexts, totals, context), looked_up(contexts, different, context)
        seen = big > 0
        share[order:][seen] = ((n + kinds * share[order:]) / np.maximum(big + kinds, 1))[seen]
        scores.append(float(-np.log(share[1:]).mean()))  # the first token is given, as it is to the model
    return scores


def grams(text: Codes, order: int, vocab: int) -> Codes:
    """Each token with the ``order`` tokens before it, as one number."""
    numbers = np.zeros(len(text) - order, dtype=np.int64)
    for place in range(order + 1):
        numbers = numbers * vocab + text[place : len(text) - order + place]
    return numbers


def looked_up(keys: Codes, values: Codes, wanted: Codes) -> Codes:
    """The value of each wanted key; 0 for one that is not there."""
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("run", nargs="?", type=Path, help="the folder of a trained run; without it, the chains alone")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    data = load_data("shakespeare")
    train, valid = (stream(data.split(part)).numpy() for part in ("train", "valid"))
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
