"""Beam search compared with Hugging Face's generate: 5 beams, 128 tokens, transformers of 4 layers, 256 wide.

    python benchmarks/beam.py [--models gpt] [--rows 1] [--vocab 2000] [--rounds 7] [--json results.json]

Both have the same weights, float32, one thread, a key-value cache, no end token, so that all beams go to the end, and
a prompt of 8 tokens; they find the same sequences with the same scores, which is checked first. A model is a function
in ``MODELS`` that makes both searches. What counts is the median of the ratios of neighbors, in processor time. The
goal is 2 times the speed of Hugging Face.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import importlib
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from side_by_side import interleaved, table
from torch import Tensor

from deepcanon.interop.hugging_face import load_gpt2
from deepcanon.models.attention.gpt import GPT

LAYERS, HEADS, WIDTH = 4, 4, 256
BEAMS, PROMPT, STEPS = 5, 8, 128
GOAL = "2x"
transformers: Any = importlib.import_module("transformers")
Search = Callable[[], tuple[Tensor, Tensor]]
"""Gives the sequences that were found, (rows, beams, length), and their log-probabilities, (rows, beams)."""


def gpt(vocab: int, rows: int) -> tuple[Search, Search]:
    """The searches of our GPT and of GPT-2 with the same weights, larger than initial ones, so that beams differ."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=vocab, n_positions=PROMPT + STEPS, n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH,
        initializer_range=0.1, bos_token_id=0, eos_token_id=None,
    )  # fmt: skip
    theirs = transformers.GPT2LMHeadModel(config).eval()
    ours = GPT(vocab, PROMPT + STEPS, LAYERS, HEADS, WIDTH, activation="gelu_tanh").eval()
    load_gpt2(ours, theirs.state_dict())
    prompt = torch.randint(vocab, (rows, PROMPT))
    options = {
        "num_beams": BEAMS, "num_return_sequences": BEAMS, "max_new_tokens": STEPS, "do_sample": False,
        "pad_token_id": 0, "length_penalty": 0.0, "return_dict_in_generate": True, "output_scores": True,
    }  # fmt: skip

    def their_search() -> tuple[Tensor, Tensor]:
        found = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
        return found.sequences.view(rows, BEAMS, -1), found.sequences_scores.view(rows, BEAMS)

    def our_search() -> tuple[Tensor, Tensor]:
        found = ours.beam_search(prompt, STEPS, beams=BEAMS)
        return found.tokens, found.log_prob

    return our_search, their_search


MODELS: dict[str, Callable[[int, int], tuple[Search, Search]]] = {"gpt": gpt}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rows", type=int, default=1, help="prompts that are continued at once")
    parser.add_argument("--vocab", type=int, default=2000, help="different tokens")
    parser.add_argument("--rounds", type=int, default=7, help="searches of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    numbers = {}
    for name in arguments.models:
        ours, theirs = MODELS[name](arguments.vocab, arguments.rows)
        (tokens, scores), (their_tokens, their_scores) = ours(), theirs()
        torch.testing.assert_close(scores, their_scores, rtol=1e-4, atol=1e-3)
        print(f"{name}: {float((tokens == their_tokens).all(2).float().mean()):.0%} of the sequences are the same")
        times = interleaved({"deepcanon": ours, "Hugging Face": theirs}, arguments.rounds, clock=time.process_time)
        title = (
            f"{name}: {BEAMS} beams, {STEPS} tokens, {arguments.rows} prompts, {arguments.vocab} tokens (goal: {GOAL})"
        )
        numbers[name] = table(title, times, "deepcanon")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {platform.machine()}, 1 thread")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
