"""A batch of 256 images of 32x32 pixels changed at once, beside loops over the images with scipy and with Pillow.

    python benchmarks/augment.py [--json results.json]

All contenders are given the same motions (crop, flip, rotation, shear, stretch, translation, lens), drawn beforehand,
and use one thread. The loop with scipy makes each image's grid with NumPy and looks it up channel by channel with
``ndimage.map_coordinates``, linearly. The loop with Pillow, which knows no lens, applies one operation after the other
to an image of bytes, as lists of transforms do, and turns it into an array again; "one step" is the least Pillow can
do, the whole affine map in a single ``transform``. Ours is timed with its lens, and with the drawing of its motions.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import platform
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from scipy import ndimage
from side_by_side import interleaved, table

from deepcanon.nn.augment import Augment, Motion

COUNT, SIDE, CHANNELS, ASKED = 256, 32, 3, 20.0
AUGMENT = Augment(crop=0.1, flip=0.5, rotate=15, shear=0.1, stretch=0.1, translate=0.1, lens=0.1)

Pixels = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


class Loops:
    """The same motions, one image at a time."""

    def __init__(self, motion: Motion, images: Pixels) -> None:
        self.images = images
        self.bytes: Bytes = (images.transpose(0, 2, 3, 1) * 255).round().astype(np.uint8)
        self.lens = motion.lens.tolist()
        self.matrices = motion.matrix().numpy()
        corner = (motion.corner * (1 - motion.crop).unsqueeze(-1) * SIDE / 2).numpy()
        shift = (motion.matrix() @ motion.translate.unsqueeze(-1)).squeeze(-1).numpy()
        self.offsets = corner - shift
        self.motion = motion

    def scipy(self) -> Pixels:
        moved = np.empty_like(self.images)
        middle = (SIDE - 1) / 2
        for i, image in enumerate(self.images):
            v, u = np.meshgrid(np.arange(SIDE) - middle, np.arange(SIDE) - middle, indexing="ij")
            bent = 1 + self.lens[i] * (u**2 + v**2) / (SIDE**2 / 2)
            (a, b), (c, d) = self.matrices[i]
            x = (a * u + b * v) * bent + self.offsets[i, 0] + middle
            y = (c * u + d * v) * bent + self.offsets[i, 1] + middle
            for channel, pixels in enumerate(image):
                moved[i, channel] = ndimage.map_coordinates(pixels, [y, x], order=1, mode="nearest")
        return moved

    def pillow(self) -> Bytes:
        motion, moved = self.motion, np.empty_like(self.bytes)
        for i, pixels in enumerate(self.bytes):
            image: Image.Image = Image.fromarray(pixels)
            side = motion.crop[i].item() * SIDE
            left, top = ((SIDE - side) / 2 * (1 + motion.corner[i])).tolist()
            box = (left, top, left + side, top + side)
            image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box)
            if motion.mirror[i] < 0:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            image = image.rotate(motion.rotate[i].item(), Image.Resampling.BILINEAR)
            shear, (wide, high), (right, down) = (
                motion.shear[i].item(),
                motion.stretch[i].tolist(),
                motion.translate[i].tolist(),
            )
            for matrix in ((1, -shear, 0, 0, 1, 0), (1 / wide, 0, 0, 0, 1 / high, 0), (1, 0, -right, 0, 1, -down)):
                image = image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
            moved[i] = np.asarray(image)
        return moved

    def pillow_in_one_step(self) -> Bytes:
        moved, centre = np.empty_like(self.bytes), np.full(2, SIDE / 2)
        for i, pixels in enumerate(self.bytes):
            matrix = self.matrices[i]
            (a, b), (c, d) = matrix
            e, f = centre + self.offsets[i] - matrix @ centre
            image = Image.fromarray(pixels)
            moved[i] = np.asarray(
                image.transform(image.size, Image.Transform.AFFINE, (a, b, e, c, d, f), Image.Resampling.BILINEAR)
            )
        return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    images = torch.rand(COUNT, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    index = torch.arange(COUNT)
    loops = Loops(AUGMENT.motion(index, SIDE, SIDE, seed=0, epoch=0), images.numpy())
    apart = (AUGMENT(images, index, seed=0, epoch=0) - torch.from_numpy(loops.scipy())).abs().max().item()
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread; ours and scipy differ by at most {apart:.1e}")
    times = interleaved(
        {
            "ours": lambda: AUGMENT(images, index, seed=0, epoch=0),
            "scipy, image by image": loops.scipy,
            "Pillow, step by step": loops.pillow,
            "Pillow, one step": loops.pillow_in_one_step,
        },
        rounds=20,
    )
    numbers = table(f"{COUNT} images of {CHANNELS}x{SIDE}x{SIDE} (asked: {ASKED:.0f}x)", times, "ours")
    if arguments.json:
        arguments.json.write_text(json.dumps({"largest_difference": apart, **numbers}, indent=1) + "\n")


if __name__ == "__main__":
    main()
