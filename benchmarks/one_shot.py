"""One-shot classification of Omniglot by a Siamese network, next to nearest neighbors of pixels.

    DEEPCANON_DATA=FOLDER python benchmarks/one_shot.py --steps 1500 --seeds 1

The folder omniglot of DEEPCANON_DATA holds omniglot28.npz (all characters in 28 x 28 pixels, as packed bits with
alphabet, character and is_background) and one_shot_all_runs.zip, the 20 runs of 20 characters each by Lake et al.
(2015). No public mirror has the former, so this needs it on your disk. The twins are trained on the 30 background
alphabets; every character of a run is of another alphabet.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import deepcanon as dc
from deepcanon.augment import Augment
from deepcanon.data.download import data_folders
from deepcanon.methods.siamese import Siamese
from deepcanon.models.convolutional.cnn import CNN

SIDE = 28


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--lr", type=float, default=2e-3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    folder = next(each / "omniglot" for each in data_folders() if (each / "omniglot" / "omniglot28.npz").is_file())
    x, y = background(folder)
    runs = one_shot_runs(folder)
    pixels = np.mean([(nearest(run[0], run[1]) == run[2]).double().mean().item() for run in runs])
    print(f"{len(x)} images of {int(y.max()) + 1} characters; {len(runs)} runs of {len(runs[0][0])} characters")
    print(f"nearest neighbors of pixels: {pixels:.1%}; guessing: {1 / len(runs[0][0]):.1%}")
    for seed in range(asked.seeds):
        torch.manual_seed(seed)
        method = Siamese(CNN(channels=1, height=SIDE, width=SIDE, classes=int(y.max()) + 1, hidden=(16, 32, 64)))
        settings: Any = {"steps": asked.steps, "batch_size": 512, "lr": asked.lr, "evaluate": False}
        dc.fit(method, dc.data.of(x, y), seed=seed, quiet=True, **settings)
        method.eval()
        right = [(method.one_shot(run[1], run[0]) == run[2]).double().mean().item() for run in runs]
        print(
            f"siamese, seed {seed}: {np.mean(right):.1%} (runs from {min(right):.0%} to {max(right):.0%})", flush=True
        )


def background(folder: Path) -> tuple[Tensor, Tensor]:
    """The characters of the background alphabets, each as drawn and once more a little moved."""
    with np.load(folder / "omniglot28.npz", allow_pickle=False) as content:
        here = content["is_background"]
        ink = np.unpackbits(content["ink_packed"][here], axis=1)[:, : SIDE * SIDE]
        _, y = np.unique(content["character"][here], return_inverse=True)
    x = torch.from_numpy(ink.reshape(-1, 1, SIDE, SIDE)).float()
    motion = Augment(rotate=10, shear=0.2, stretch=0.2, translate=0.08, border="zeros")
    moved = motion(x, torch.arange(len(x)), seed=0, epoch=0)
    return torch.cat([x, moved]), torch.from_numpy(y).repeat(2)


def one_shot_runs(folder: Path) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Of each run the example of each character, the queries, and which character each query is."""
    found = []
    with zipfile.ZipFile(folder / "one_shot_all_runs.zip") as archive:
        for run in sorted({Path(name).parts[0] for name in archive.namelist()}):
            lines = archive.read(f"{run}/class_labels.txt").decode().split("\n")
            pairs = [line.split() for line in lines if line.strip()]
            examples = sorted({example for _, example in pairs})
            given = torch.stack([image(archive.read(name)) for name in examples])
            queries = torch.stack([image(archive.read(name)) for name, _ in pairs])
            found.append((given, queries, torch.tensor([examples.index(example) for _, example in pairs])))
    return found


def image(content: bytes) -> Tensor:
    """A drawing in 28 x 28 pixels, 1 where there is ink."""
    small = Image.open(io.BytesIO(content)).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    return (torch.from_numpy(np.asarray(small, dtype=np.float32) / 255) < 0.8).float().unsqueeze(0)


def nearest(examples: Tensor, queries: Tensor) -> Tensor:
    return torch.cdist(queries.flatten(1), examples.flatten(1)).argmin(1)


if __name__ == "__main__":
    main()
