"""Captions of scenes, and scenes from captions: how many captions are exact, and how many images are recognized.

    python benchmarks/captions.py [--seeds 3] [--first 0] [--json results.json]

Both models are trained by their recipes on ``scenes``, whose splits are of different handwritten digits. ``caption``
shall write more than 95 % of the captions of the test exactly. ``caption_to_image`` then makes an image of each caption
of the test, and the captioner, which has never seen an image of its making, writes what it sees: an image is recognized
if that is the caption that it was made from, and a digit, if it is the digit at its place of that caption. No image can
be recognized more often than those of the test are, but for chance.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.core import Captioned
from deepcanon.data.sets.scenes import CAPTIONS, NAMES

GOAL = 0.95
THREE = 10
"""The tokens of the shortest captions of three digits."""


def trained(name: str, data: Any, seed: int) -> tuple[Any, float]:
    """A model by its recipe, and the seconds of processor time that its training took."""
    torch.manual_seed(seed)
    kind: Any = dc.find(name)
    sizes = ["channels", "height", "width", "target_vocab"] + (
        ["begin_token", "end_token"] if name == "caption" else []
    )
    model = kind(**{size: data.sizes[size] for size in sizes})
    begun = time.process_time()
    dc.fit(model, data, seed=seed, quiet=True, evaluate=False)
    return model.eval(), time.process_time() - begun


def read(captioner: Any, x: Tensor, wanted: Captioned) -> tuple[Tensor, float]:
    """Whether the captioner writes the wanted caption of each image, (B,), and the share of the digits that it does."""
    tokens, ends = captioner.translate(x)
    written = [row[:end] for row, end in zip(tokens.tolist(), ends.tolist(), strict=True)]
    true = [row[:end] for row, end in zip(wanted.y.tolist(), wanted.y_lengths.tolist(), strict=True)]
    names = {CAPTIONS.vocabulary.index(name) for name in NAMES}
    right = total = 0
    for row, other in zip(written, true, strict=True):
        found, there = ([token for token in each if token in names] for each in (row, other))
        right += sum(one == two for one, two in zip(found, there, strict=False))
        total += len(there)
    return torch.tensor([row == other for row, other in zip(written, true, strict=True)]), right / total


def measured(seed: int) -> dict[str, float]:
    data: Any = dc.load_data("scenes")
    test = data.split("test")
    captioner, written = trained("caption", data, seed)
    maker, drawn = trained("caption_to_image", data, seed)
    images = maker.sample(len(test), context=(test.y, test.y_lengths), generator=Generator().manual_seed(seed))
    known, digits = read(captioner, images, test)
    one, three = test.y_lengths == test.y_lengths.min(), test.y_lengths >= THREE
    return {
        "captions exact": float(read(captioner, test.x, test)[0].double().mean()),
        "images recognized": float(known.double().mean()),
        "digits recognized": digits,
        "of one digit": float(known[one].double().mean()),
        "of three digits": float(known[three].double().mean()),
        "caption, seconds": written,
        "caption_to_image, seconds": drawn,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for seed in range(options.first, options.first + options.seeds):
        found.append(measured(seed))
        print(f"seed {seed}: " + "  ".join(f"{name} {value:.3f}" for name, value in found[-1].items()), flush=True)
    least = min(each["captions exact"] for each in found)
    print(f"at least {least:.1%} of the captions are exact (goal: more than {GOAL:.0%})")
    if options.json:
        options.json.write_text(json.dumps({"machine": platform.machine(), "all": found}, indent=1))


if __name__ == "__main__":
    main()
