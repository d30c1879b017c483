"""Data augmentation of 256 images of 32x32 pixels at once, compared with loops over them with scipy and Pillow.

    python benchmarks/augment.py [--json results.json]

All candidates are given the same transformations (crop, flip, rotation, shear, scaling, translation, lens), drawn
beforehand; ours is timed with the drawing of its own, over BATCHES different batches in a row as in an epoch: a loop
over 256 images is as warm after its first image. The process keeps freed memory, as in training. Ours is timed with one
thread, which is all that a loop over images can use, and with the two that a machine of two cores gives it. "Step by
step" applies one operation after the other, as lists of transforms do: with scipy ``affine_transform``, ``rotate``,
``shift`` and ``map_coordinates`` on each channel, with Pillow on an image of bytes, converted back into an array;
Pillow has no lens distortion and leaves it out. "In one step" is the least each can do: scipy interpolates each channel
at a grid made with NumPy, Pillow takes the whole affine map in a single ``transform``.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import platform
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from scipy import ndimage
from side_by_side import interleaved, table

from deepcanon.augment.motions import Augment, Motion
from deepcanon.train.process import keep_freed_memory

COUNT, SIDE, CHANNELS, BATCHES, GOAL = 256, 32, 3, 10, 20.0
AUGMENT = Augment(crop=0.1, flip=0.5, rotate=15, shear=0.1, stretch=0.1, translate=0.1, lens=0.1)

Pixels = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


class Loops:
    """Loops with the same transformations, one image at a time."""

    def __init__(self, motion: Motion, images: Pixels) -> None:
        self.images = images
        self.bytes: Bytes = (images.transpose(0, 2, 3, 1) * 255).round().astype(np.uint8)
        self.lens = motion.lens.tolist()
        self.matrices, self.offsets = motion.matrix, motion.offset(SIDE, SIDE)
        self.motion = motion

    def scipy_in_one_step(self) -> Pixels:
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

    def scipy(self) -> Pixels:
        motion, moved = self.motion, np.empty_like(self.images)
        middle = np.full(2, (SIDE - 1) / 2)
        for i, image in enumerate(self.images):
            side, corner = motion.crop[i].item(), motion.corner[i, ::-1]
            shear, (wide, high) = motion.shear[i].item(), motion.stretch[i].tolist()
            v, u = np.meshgrid(np.arange(SIDE) - middle[0], np.arange(SIDE) - middle[1], indexing="ij")
            bent = 1 + self.lens[i] * (u**2 + v**2) / (SIDE**2 / 2)
            coordinates = [v * bent + middle[0], u * bent + middle[1]]
            way = motion.translate[i, ::-1]
            for channel, pixels in enumerate(image):
                offset = middle + corner * (1 - side) * SIDE / 2 - side * middle
                pixels = ndimage.affine_transform(pixels, np.full(2, side), offset, order=1, mode="nearest")
                if motion.mirror[i] < 0:
                    pixels = pixels[:, ::-1]
                pixels = ndimage.rotate(pixels, motion.rotate[i].item(), reshape=False, order=1, mode="nearest")
                for matrix in (np.array([[1, 0], [-shear, 1]]), np.diag([1 / high, 1 / wide])):
                    offset = middle - matrix @ middle
                    pixels = ndimage.affine_transform(pixels, matrix, offset, order=1, mode="nearest")
                pixels = ndimage.shift(pixels, way, order=1, mode="nearest")
                moved[i, channel] = ndimage.map_coordinates(pixels, coordinates, order=1, mode="nearest")
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
        moved, center = np.empty_like(self.bytes), np.full(2, SIDE / 2)
        for i, pixels in enumerate(self.bytes):
            matrix = self.matrices[i]
            (a, b), (c, d) = matrix
            e, f = center + self.offsets[i] - matrix @ center
            image = Image.fromarray(pixels)
            moved[i] = np.asarray(
                image.transform(image.size, Image.Transform.AFFINE, (a, b, e, c, d, f), Image.Resampling.BILINEAR)
            )
        return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    keep_freed_memory()
    images = torch.rand(COUNT, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    index = torch.arange(COUNT)
    loops = Loops(AUGMENT.motion(index, SIDE, SIDE, seed=0, epoch=0), images.numpy())
    apart = (AUGMENT(images, index, seed=0, epoch=0) - torch.from_numpy(loops.scipy_in_one_step())).abs().max().item()
    print(f"torch {torch.__version__}, {platform.machine()}; ours and scipy differ by at most {apart:.1e}")
    epoch = torch.rand(BATCHES, COUNT, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(1))

    def ours(threads: int) -> None:
        torch.set_num_threads(threads)
        for number, batch in enumerate(epoch):
            AUGMENT(batch, index + number * COUNT, seed=0, epoch=0)

    alone, together = "ours, one thread", "ours, two threads"
    times = interleaved(
        {
            alone: partial(ours, 1),
            together: partial(ours, 2),
            "scipy, step by step": loops.scipy,
            "scipy, in one step": loops.scipy_in_one_step,
            "Pillow, step by step": loops.pillow,
            "Pillow, in one step": loops.pillow_in_one_step,
        },
        rounds=20,
    )
    for name in (alone, together):
        times[name] = [seconds / BATCHES for seconds in times[name]]
    title = f"{COUNT} images of {CHANNELS}x{SIDE}x{SIDE} (goal: {GOAL:.0f}x)"
    numbers = {name: table(title, times, name) for name in (alone, together)}
    if arguments.json:
        arguments.json.write_text(json.dumps({"largest_difference": apart, **numbers}, indent=1) + "\n")


if __name__ == "__main__":
    main()
