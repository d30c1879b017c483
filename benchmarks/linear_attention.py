"""Linear attention compared with softmax attention as texts grow: the slope of log time against log n, one thread.

    python benchmarks/linear_attention.py [--rounds 5] [--longest 32768] [--json results.json]

Causal self-attention of one head of width 64 in single precision, forward only, from 1,024 to 32,768 positions. Each
length runs ours and torch's fused ``scaled_dot_product_attention`` in turns, in processor time. The slope is that of a
line through the logarithms of the medians: 1 is linear, 2 quadratic. The goal is at most 1.1 against about 2.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from side_by_side import Times, interleaved
from torch.nn.functional import scaled_dot_product_attention

from deepcanon.nn.linear_attention import linear_attention
from deepcanon.nn.sparse_attention import local_attention

WIDTH, REACH, SHORTEST = 64, 128, 1024
LINEAR, LOCAL, SOFTMAX = "linear attention", f"local attention, reach {REACH}", "softmax attention"


def timed(length: int, rounds: int) -> Times:
    """The seconds of every run at this length."""
    q, k, v = torch.randn(3, 1, 1, length, WIDTH, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        return interleaved(
            {
                LINEAR: lambda: linear_attention(q, k, v, causal=True),
                LOCAL: lambda: local_attention(q, k, v, REACH, causal=True),
                SOFTMAX: lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
            },
            rounds,
            warm_up=1,
            clock=time.process_time,
        )


def slope(lengths: list[int], seconds: list[float]) -> float:
    """The exponent of n in the time."""
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of each candidate at each length")
    parser.add_argument("--longest", type=int, default=32768, help="the longest text; each is twice the one before")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lengths = [SHORTEST << place for place in range((arguments.longest // SHORTEST).bit_length())]
    medians: dict[str, list[float]] = {LINEAR: [], LOCAL: [], SOFTMAX: []}
    for length in lengths:
        for name, seconds in timed(length, arguments.rounds).items():
            medians[name].append(statistics.median(seconds))
        row = "   ".join(f"{name} {1e3 * column[-1]:9.2f} ms" for name, column in medians.items())
        print(f"  n = {length:6,}   {row}", flush=True)
    slopes = {name: round(slope(lengths, column), 3) for name, column in medians.items()}
    for name, found in slopes.items():
        print(f"{name}: the time grows as n to the power of {found:.2f}")
    print(f"the goal is at most 1.1 for linear attention; torch {torch.__version__}, {platform.machine()}, 1 thread")
    if arguments.json:
        numbers = {"lengths": lengths, "seconds": medians, "slopes": slopes}
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
