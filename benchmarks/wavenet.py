"""WaveNet samples with queues compared with samples without them: seconds against the number of steps, one thread.

    python benchmarks/wavenet.py [--longest 4096] [--rounds 2] [--json results.json]

One wave is sampled from a WaveNet of 10 layers (dilations 1 to 512) of 64 channels, 256 tokens. With queues a step
reads one token; without them it reads all tokens before it again, as the model is trained, or the 1,024 of its
receptive field. Steps without queues are timed where the wave has so many tokens, 16 places over its length, and
added up by the trapezoid rule, since all of them would take many minutes. The goals are a time that grows linearly,
and 20x at 4,096 steps.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import platform
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from side_by_side import interleaved
from torch import Tensor

from deepcanon.models.autoregressive.wavenet import WaveNet

VOCAB, SHORTEST, PLACES = 256, 256, 16


def uncached(model: WaveNet, wave: Tensor, places: list[int], window: int, into: list[list[float]]) -> None:
    """Time a step at each place that reads the last tokens before it again, as many as the window holds."""
    found = []
    with torch.inference_mode():
        for place in places:
            begun = time.process_time()
            model(wave[:, max(0, place - window) : place])
            found.append(time.process_time() - begun)
    into.append(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--longest", type=int, default=4096, help="the most steps; each number is twice the one before")
    parser.add_argument("--rounds", type=int, default=2, help="interleaved runs of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = WaveNet(VOCAB, channels=64, skip=128, layers=10).eval()
    wave = torch.randint(VOCAB, (1, arguments.longest), generator=torch.Generator().manual_seed(0))
    lengths = [SHORTEST << place for place in range((arguments.longest // SHORTEST).bit_length())]
    rows = []
    for steps in lengths:
        places = np.unique(np.linspace(1, steps, PLACES).round().astype(int)).tolist()
        whole: list[list[float]] = []
        field: list[list[float]] = []
        times = interleaved(
            {
                "queues": partial(model.generate, wave[:, :1], steps),
                "all": partial(uncached, model, wave, places, steps, whole),
                "field": partial(uncached, model, wave, places, model.receptive_field, field),
            },
            arguments.rounds,
            warm_up=1,
            clock=time.process_time,
        )
        cached = statistics.median(times["queues"])
        total, near = (float(np.trapezoid(np.median(each[1:], 0), places)) for each in (whole, field))
        rows.append({"steps": steps, "queues": cached, "all": total, "field": near})
        print(
            f"  {steps:5,} steps   with queues {cached:6.2f} s   all again {total:7.2f} s ({total / cached:5.1f}x)   "
            f"the receptive field again {near:7.2f} s ({near / cached:5.1f}x)",
            flush=True,
        )
    slope = float(np.polyfit(np.log([row["steps"] for row in rows]), np.log([row["queues"] for row in rows]), 1)[0])
    print(f"with queues the time grows as the steps to the power of {slope:.2f}; the goals are 1 and 20x")
    print(f"receptive field {model.receptive_field}; torch {torch.__version__}, {platform.machine()}, 1 thread")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "slope": slope}, indent=1) + "\n")


if __name__ == "__main__":
    main()
