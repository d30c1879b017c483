"""Samples of convolutional models of digits next to those of their dense forms: a two-sample test and coverage.

    python benchmarks/image_samples.py [--models gan dcgan ddpm unet] [--seeds 3] [--first 0]

Every model is trained on the training digits by its recipe, the two of a kind for as many epochs, and draws as many
samples as there are test digits. Samples are rounded to the gray levels that digits have, and held to the test digits:
how often a random forest tells which of the two an image is (50 % is guessing), and how many test digits have a sample
within the distance of their fifth nearest neighbor. The first row is that of training digits in place of samples. The
U-Net has 16 and 32 channels.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import statistics
import time
from typing import Any

import torch

import deepcanon as dc
from deepcanon.comparison.quality import Quality, Yardstick
from deepcanon.core import Blueprint

KINDS: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "gan": ("gan", "digits", {}, 60),
    "dcgan": ("dcgan", "digits", {}, 60),
    "ddpm": ("ddpm", "digits:dequantized", {}, 150),
    "unet": ("ddpm", "digits:dequantized", {"network": "unet", "hidden": (16, 32)}, 150),
}
"""The name of a model, the form of its data, its arguments and its epochs."""
MOST = 16
"""The largest gray level of a digit."""


def judged(kind: str, seed: int, yardstick: Yardstick) -> Quality:
    name, form, given, epochs = KINDS[kind]
    data = dc.load_data(form)
    torch.manual_seed(seed)
    model: Any = Blueprint(dc.find(name), given).build(data.sizes)
    dc.fit(model, data, quiet=True, seed=seed, evaluate=False, epochs=epochs)
    samples = model.eval().sample(len(yardstick.held_out), generator=torch.Generator().manual_seed(seed))
    levels = (samples * (MOST + 1)).floor() if form.endswith("dequantized") else (samples * MOST).round()
    return yardstick.judge(levels.clamp(0, MOST) / MOST)


def said(quality: Quality) -> str:
    return f"told by a forest {quality['two_sample']:.1%}, covered {quality['coverage']:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    digits = dc.load_data("digits")
    yardstick = Yardstick.of(digits.train.x, digits.test.x)
    assert yardstick is not None
    print(f"training digits: {said(yardstick.judge_training_data())}", flush=True)
    for kind in arguments.models:
        found = []
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            began = time.process_time()
            found.append(judged(kind, seed, yardstick))
            print(f"{kind}, seed {seed}: {said(found[-1])}, {time.process_time() - began:.0f} s", flush=True)
        told, covered = (statistics.mean(each[name] for each in found) for name in ("two_sample", "coverage"))
        print(f"{kind}, mean: told by a forest {told:.1%}, covered {covered:.1%}", flush=True)


if __name__ == "__main__":
    main()
