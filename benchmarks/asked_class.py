"""Digits of an asked class by class-conditional models, read by a classifier that has never seen a sample.

    python benchmarks/asked_class.py [--models guided_ddpm conditional_gan ...] [--seeds 1] [--samples 1000]

Each model is trained on the training digits by its own recipe, and asked for as many samples of each class. A support
vector machine that has learned the training digits says of which class they are; of test digits it finds the right one
in the share that the first row says. Diffusion samples are drawn without guidance and with a weight of 1.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import time
from collections.abc import Iterator
from typing import Any

import torch
from sklearn.svm import SVC
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Blueprint

FORMS = {"conditional_pixelcnn": "digits:levels"}
"""The form of the digits that a model learns from, where it is not the plain one."""
LEVELS = 16
"""The largest gray level of a digit."""


def drawn(name: str, model: Any, asked: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Samples of the asked classes, gray from 0 to 1, by each way to draw them."""
    generator = torch.Generator().manual_seed(0)
    if name == "guided_ddpm":
        for weight in (0.0, 1.0):
            yield f"{name}, guidance {weight:g}", model.given(asked, weight).sample(len(asked), generator=generator)
    else:
        samples = model.sample(len(asked), context=asked, generator=generator)
        yield name, samples / LEVELS if name in FORMS else samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=["guided_ddpm", "conditional_gan", "conditional_pixelcnn"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    digits = dc.load_data("digits")
    classifier = SVC(gamma="scale").fit(digits.train.x.flatten(1).numpy(), digits.train.y.numpy())
    test = digits.split("test")
    print(f"test digits: {classifier.score(test.x.flatten(1).numpy(), test.y.numpy()):.1%}", flush=True)
    asked = torch.arange(10).repeat_interleave(arguments.samples // 10)
    for name in arguments.models:
        for seed in range(arguments.seeds):
            data = dc.load_data(FORMS.get(name, "digits"))
            began = time.process_time()
            torch.manual_seed(seed)
            model = Blueprint(dc.find(name)).build(data.sizes)
            dc.fit(model, data, quiet=True, seed=seed, evaluate=False)
            took = time.process_time() - began
            for way, samples in drawn(name, model.eval(), asked):
                right = classifier.predict(samples.flatten(1).numpy()) == asked.numpy()
                print(
                    f"{way}, seed {seed}: {right.mean():.1%} of the asked class, {took:.0f} s of training", flush=True
                )


if __name__ == "__main__":
    main()
