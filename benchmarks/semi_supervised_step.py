"""A training step of MixMatch and of FixMatch compared with a plain loop that augments image by image, on one thread.

    python benchmarks/semi_supervised_step.py [--rounds 20] [--batch 128] [--side 8] [--json results.json]

The classifier is an mlp of two hidden layers of 64 units in all of them, the loss and its gradient the same formula,
and Adam the same. The plain loops augment each image by itself, as a Dataset does in ``__getitem__``, and stack what
they get: in NumPy (a shift by padded indices, contrast, a square cut out), and in Pillow, as torchvision's transforms
for PIL images do (``ImageOps.expand`` and ``crop``, ``ImageEnhance.Contrast``, ``paste``, and back to a tensor). Ours
augments the batch at once and has linear layers as the Trainer has them. The times are those of the processor.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps
from side_by_side import interleaved, table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from deepcanon.catalogue import find
from deepcanon.core import SemiBatch
from deepcanon.core.fast_product import fast_linear_layers
from deepcanon.methods.fixmatch import FixMatch
from deepcanon.methods.mixmatch import MixMatch
from deepcanon.models.feedforward.mlp import MLP

CLASSES, STEPS = 10, 5
WEAK, STRONG = 0.1, 0.5
PerImage = Callable[[NDArray[np.float32], float, bool], NDArray[np.float32]]
"""An image, (height, width), augmented: shifted by up to a strength, and with contrast changed and a square cut out."""


def in_numpy(image: NDArray[np.float32], strength: float, strong: bool) -> NDArray[np.float32]:
    side = image.shape[0]
    most = round((strength / 4 if strong else strength) * side)
    down, right = random.randint(0, 2 * most), random.randint(0, 2 * most)
    image = np.pad(image, most, mode="edge")[down : down + side, right : right + side]
    if strong:
        mean, cut = image.mean(), round(strength * side)
        image = mean + (1 + strength * (2 * random.random() - 1)) * (image - mean)
        top, left = random.randrange(side) - cut // 2, random.randrange(side) - cut // 2
        image[max(0, top) : top + cut, max(0, left) : left + cut] = mean
    return image


def in_pillow(image: NDArray[np.float32], strength: float, strong: bool) -> NDArray[np.float32]:
    side = image.shape[0]
    most = round((strength / 4 if strong else strength) * side)
    down, right = random.randint(0, 2 * most), random.randint(0, 2 * most)
    drawn = ImageOps.expand(Image.fromarray((255 * image).astype(np.uint8)), most)
    drawn = drawn.crop((right, down, right + side, down + side))
    if strong:
        drawn = ImageEnhance.Contrast(drawn).enhance(1 + strength * (2 * random.random() - 1))
        cut = round(strength * side)
        top, left = random.randrange(side) - cut // 2, random.randrange(side) - cut // 2
        drawn.paste(127, (left, top, left + cut, top + cut))
    return np.asarray(drawn, dtype=np.float32) / np.float32(255)


def plain(name: str, per_image: PerImage, batch: SemiBatch) -> Callable[[], None]:
    """Steps of a plain loop with augmentation image by image."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(batch.x[0].numel(), 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                          nn.Linear(64, CLASSES))  # fmt: skip

    def augmented(x: Tensor, strength: float, strong: bool = False) -> Tensor:
        images = [torch.from_numpy(per_image(image[0].numpy(), strength, strong)) for image in x]
        return torch.stack(images).unsqueeze(1)

    def fixmatch() -> Tensor:
        with torch.no_grad():
            confidence, label = model(augmented(batch.unlabeled, WEAK)).softmax(-1).max(-1)
        nll = cross_entropy(model(augmented(batch.unlabeled, STRONG, strong=True)), label, reduction="none")
        loss: Tensor = cross_entropy(model(augmented(batch.x, WEAK)), batch.y) + (nll * (confidence >= 0.95)).mean()
        return loss

    def mixmatch() -> Tensor:
        views = torch.cat([augmented(batch.unlabeled, WEAK) for _ in range(2)])
        with torch.no_grad():
            mean = model(views).softmax(-1).view(2, len(batch.unlabeled), -1).mean(0)
            guesses = (mean**2 / (mean**2).sum(-1, keepdim=True)).repeat(2, 1)
        x = torch.cat([augmented(batch.x, WEAK), views])
        targets = torch.cat([one_hot(batch.y, CLASSES).float(), guesses])
        share = torch.from_numpy(np.random.default_rng().beta(0.75, 0.75, len(x)).astype(np.float32))
        share, other = torch.maximum(share, 1 - share), torch.randperm(len(x))
        x = share.view(-1, 1, 1, 1) * x + (1 - share.view(-1, 1, 1, 1)) * x[other]
        targets = share.view(-1, 1) * targets + (1 - share.view(-1, 1)) * targets[other]
        logits, few = model(x), len(batch.x)
        distance = (logits[few:].softmax(-1) - targets[few:]).square().mean()
        loss: Tensor = cross_entropy(logits[:few], targets[:few]) + 30 * distance
        return loss

    return steps(model, {"fixmatch": fixmatch, "mixmatch": mixmatch}[name])


def steps(model: nn.Module, loss: Callable[[], Any]) -> Callable[[], None]:
    """Some training steps."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def run() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds of each candidate")
    parser.add_argument("--batch", type=int, default=128, help="labeled examples of a batch, and unlabeled ones")
    parser.add_argument("--side", type=int, default=8, help="of the images, which are 8 pixels wide in the digits")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = (asked.batch, 1, asked.side, asked.side)
    batch = SemiBatch(torch.rand(shape), torch.arange(asked.batch) % CLASSES, torch.rand(shape))
    print(
        f"torch {torch.__version__}, {platform.machine()}, {asked.batch} + {asked.batch} images, {STEPS} steps a time"
    )
    numbers = {}
    for name in ("mixmatch", "fixmatch"):
        inner = MLP(features=asked.side**2, classes=CLASSES, hidden=(64, 64))
        method: MixMatch | FixMatch = find(name)(inner)  # type: ignore[assignment]
        candidates = {
            "deepcanon": steps(method, lambda method=method: sum(method.loss(batch).values())),  # type: ignore[misc]
            "image by image, NumPy": plain(name, in_numpy, batch),
            "image by image, Pillow": plain(name, in_pillow, batch),
        }
        with fast_linear_layers(method):
            times = interleaved(candidates, asked.rounds, clock=time.process_time)
        numbers[name] = table(f"{name} (aim: 5x)", times, "deepcanon")
    if asked.json:
        asked.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
