"""One-shot classification of Omniglot by a Siamese network, next to nearest neighbors of pixels.

    DEEPCANON_DATA=FOLDER python benchmarks/one_shot.py [--steps 1500] [--seeds 1] [--objective matching] [--validate]

The folder omniglot of DEEPCANON_DATA holds omniglot28.npz (all characters in 28 x 28 pixels, as packed bits with
alphabet, character and is_background) and one_shot_all_runs.zip, the 20 runs of 20 characters each by Lake et al.
(2015). No public mirror has the former, so this needs it on your disk. The twins are trained on the 30 background
alphabets; every character of a run is of another alphabet. Characters turned by a quarter, a half and three quarters
count as further characters (Santoro et al., 2016). A mini-batch is four drawings of each of 64 characters, each drawing
moved a little anew. With ``--validate`` six of the background alphabets are left out of the training, and 40
runs like those of Lake et al. are drawn from these: settings are chosen by them, never by the runs.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.augment import Augment
from deepcanon.core import Labeled
from deepcanon.data.download import data_folders
from deepcanon.methods.siamese import Siamese
from deepcanon.models.convolutional.cnn import CNN

SIDE = 28
CHARACTERS, DRAWINGS = 64, 4
"""The characters of a mini-batch, and the drawings of each."""

Run = tuple[Tensor, Tensor, Tensor]
"""The example of each character, the queries, and which character each query is."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--objective", default="matching")
    parser.add_argument("--validate", action="store_true", help="leave out alphabets, and draw the runs from these")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    folder = next(each / "omniglot" for each in data_folders() if (each / "omniglot" / "omniglot28.npz").is_file())
    x, y, alphabet = background(folder)
    runs = one_shot_runs(folder)
    if asked.validate:
        held = torch.isin(alphabet, torch.arange(0, 30, 5))
        runs = drawn_runs(x[held], y[held], alphabet[held])
        x, y = x[~held], y[~held].unique(return_inverse=True)[1]
    x = torch.cat([x.rot90(turn, (2, 3)) for turn in range(4)])
    y = torch.cat([y + turn * (int(y.max()) + 1) for turn in range(4)])
    pixels = np.mean([(nearest(run[0], run[1]) == run[2]).double().mean().item() for run in runs])
    print(f"{len(x)} images of {int(y.max()) + 1} characters; {len(runs)} runs of {len(runs[0][0])} characters")
    print(f"nearest neighbors of pixels: {pixels:.1%}; guessing: {1 / len(runs[0][0]):.1%}")
    for seed in range(asked.seeds):
        torch.manual_seed(seed)
        network = CNN(channels=1, height=SIDE, width=SIDE, classes=int(y.max()) + 1, hidden=(16, 32, 64, 64))
        method = Siamese(network, objective=asked.objective)
        before = shares(method, runs)
        settings: Any = {"steps": asked.steps, "batch_size": CHARACTERS * DRAWINGS, "lr": asked.lr, "evaluate": False}
        dc.fit(method, replace(dc.data.of(x, y), fresh=drawn(x, y)), seed=seed, quiet=True, **settings)
        right = shares(method, runs)
        print(
            f"siamese, seed {seed}: {np.mean(right):.1%} (runs from {min(right):.0%} to {max(right):.0%}); "
            f"untrained {np.mean(before):.1%}",
            flush=True,
        )


def shares(method: Siamese, runs: list[Run]) -> list[float]:
    """The share of queries of each run that are given their character."""
    method.eval()
    return [(method.one_shot(run[1], run[0]) == run[2]).double().mean().item() for run in runs]


def background(folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """The drawings of the background alphabets, with their characters and alphabets."""
    with np.load(folder / "omniglot28.npz", allow_pickle=False) as content:
        here = content["is_background"]
        ink = np.unpackbits(content["ink_packed"][here], axis=1)[:, : SIDE * SIDE]
        of = [np.unique(content[name][here], return_inverse=True)[1] for name in ("character", "alphabet")]
    return torch.from_numpy(ink.reshape(-1, 1, SIDE, SIDE)).float(), torch.from_numpy(of[0]), torch.from_numpy(of[1])


def drawn(x: Tensor, y: Tensor) -> Callable[[Labeled, Generator], Labeled]:
    """A fresh mini-batch: some characters, some drawings of each, each of them moved."""
    rows = y.argsort(stable=True).view(int(y.max()) + 1, -1)  # every character was drawn as often
    motion = Augment(rotate=10, shear=0.2, stretch=0.2, translate=0.08, border="zeros")

    def fresh(batch: Labeled, generator: Generator) -> Labeled:
        chosen = rows[torch.randperm(len(rows), generator=generator)[:CHARACTERS]]
        order = torch.rand(chosen.shape, generator=generator).argsort(1)[:, :DRAWINGS]
        index = chosen.gather(1, order).flatten()
        numbers = torch.randint(2**62, (len(index),), generator=generator)
        return Labeled(motion(x[index], numbers, seed=0, epoch=0), y[index])

    return fresh


def drawn_runs(x: Tensor, y: Tensor, alphabet: Tensor) -> list[Run]:
    """Runs of up to 20 characters of one alphabet, in one drawing of the same drawer each, with queries by another."""
    random, found = Generator().manual_seed(0), []
    alphabets = alphabet.unique()
    for number in range(40):
        characters = y[alphabet == alphabets[number % len(alphabets)]].unique()
        characters = characters[torch.randperm(len(characters), generator=random)[:20]]
        one, other = torch.randperm(20, generator=random)[:2]
        given, queries = (torch.stack([x[y == each][who] for each in characters]) for who in (one, other))
        found.append((given, queries, torch.arange(len(characters))))
    return found


def one_shot_runs(folder: Path) -> list[Run]:
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
