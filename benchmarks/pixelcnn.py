"""Samples of autoregressive models of images with cached rows compared with whole passes: 28x28 pixels, one thread.

    python benchmarks/pixelcnn.py [--images 16] [--rounds 3] [--json results.json]

With caches each layer computes only the pixel that is drawn next. The naive loop, which most published code has,
evaluates the whole image for every pixel; the careful loop leaves out the rows below. Both are timed at 14 pixels
spread over the image and scaled to all 784, since every pixel of the naive loop takes as long. Processor time.
The goal is 10x of the naive loop for the PixelCNN.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from side_by_side import interleaved, table
from torch import Tensor

import deepcanon as dc

SIDE, STRIDE = 28, 56
SIZES: dict[str, dict[str, Any]] = {
    "pixelcnn": {"maps": 32, "layers": 7},
    "gated_pixelcnn": {"maps": 32, "layers": 5},
    "pixelrnn": {"maps": 32, "layers": 1},
}


def again(model: Any, x: Tensor, *, careful: bool) -> Callable[[], None]:
    """A step of a loop without caches at pixels all over the image."""

    @torch.inference_mode()
    def steps() -> None:
        for pixel in range(STRIDE // 2, SIDE * SIDE, STRIDE):
            row, column = divmod(pixel, SIDE)
            seen = x[:, :, : row + 1] if careful else x
            torch.multinomial(model.logits(seen)[:, :, 0, row, column].softmax(-1), 1)

    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=16, help="how many images are drawn at once")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved runs of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    numbers = {}
    for name, sizes in SIZES.items():
        torch.manual_seed(0)
        model = dc.find(name)(channels=1, height=SIDE, width=SIDE, levels=2, **sizes).eval()
        x = torch.randint(2, (arguments.images, 1, SIDE, SIDE)).float()
        candidates: dict[str, Callable[[], object]] = {
            "caches": lambda model=model: model.sample(arguments.images),  # type: ignore[misc]
            "the whole image again": again(model, x, careful=False),
            "the rows above again": again(model, x, careful=True),
            "caches, again": lambda model=model: model.sample(arguments.images),  # type: ignore[misc]
        }
        times = interleaved(candidates, arguments.rounds, warm_up=1, clock=time.process_time)
        pixels = len(range(STRIDE // 2, SIDE * SIDE, STRIDE))
        whole = {key: [t * (1 if "caches" in key else SIDE**2 / pixels) for t in ts] for key, ts in times.items()}
        numbers[name] = table(f"{name} {sizes}, {arguments.images} images of {SIDE}x{SIDE}", whole, "caches")
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, processor time")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
