"""Label-preserving data augmentation: weak and strong random perturbations of every example of a batch.

Each is one vectorized operation on the whole batch. Random numbers come from the given generator, or from the global
one; a perturbation of strength 0 is the batch itself and draws nothing.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from deepcanon.core import DataError


def weakly(x: Tensor, strength: float, *, flip: bool = False, generator: Generator | None = None) -> Tensor:
    """Weakly augmented examples: images shifted by up to ``strength`` times their side, and flipped half of the time.

    Images are flipped with ``flip`` only. Examples that are not images, (B, features), get Gaussian noise with
    ``strength`` as its standard deviation.

    >>> x = torch.zeros(2, 3)
    >>> weakly(x, 0.0) is x
    True
    """
    if x.ndim != 4:
        return noisy(x, strength, generator)
    mirrored = flipped(x, generator) if flip else x
    return shifted(mirrored, round(strength * max(x.shape[2:])), generator)


def strongly(x: Tensor, strength: float, *, flip: bool = False, generator: Generator | None = None) -> Tensor:
    """Strongly augmented examples: another contrast, a shift, and a square of ``strength`` times the side cut out.

    The contrast changes by up to ``strength`` of itself, the shift is at most a quarter of ``strength``. Examples that
    are not images get Gaussian noise.
    """
    if x.ndim != 4:
        return noisy(x, strength, generator)
    moved = weakly(x, strength / 4, flip=flip, generator=generator)
    return cut_out(contrasted(moved, strength, generator), round(strength * max(x.shape[2:])), generator)


def noisy(x: Tensor, std: float, generator: Generator | None = None) -> Tensor:
    """Examples with Gaussian noise added to every feature."""
    if std == 0:
        return x
    if not x.is_floating_point():
        raise DataError(f"noise can be added to real numbers only; the examples are of {x.dtype}")
    return x + std * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def shifted(images: Tensor, most: int, generator: Generator | None = None) -> Tensor:
    """Each image translated by up to ``most`` pixels in both directions, with the border repeated.

    >>> shifted(torch.arange(3.0).view(1, 1, 1, 3), 1, torch.Generator().manual_seed(0))
    tensor([[[[0., 0., 1.]]]])
    """
    if most == 0:
        return images
    count, _, height, width = images.shape
    shifts = torch.randint(-most, most + 1, (2, count, 1), generator=generator, device=images.device)
    rows = (torch.arange(height, device=images.device) + shifts[0]).clamp(0, height - 1)  # (B, height)
    columns = (torch.arange(width, device=images.device) + shifts[1]).clamp(0, width - 1)  # (B, width)
    down = images.gather(2, rows.view(count, 1, height, 1).expand_as(images))
    return down.gather(3, columns.view(count, 1, 1, width).expand_as(images))


def flipped(images: Tensor, generator: Generator | None = None) -> Tensor:
    """Half of the images flipped horizontally, at random."""
    mirrored = _uniform(images, generator) < 0.5
    return torch.where(mirrored, images.flip(3), images)


def contrasted(images: Tensor, most: float, generator: Generator | None = None) -> Tensor:
    """Each image with its contrast changed by up to ``most``: its differences from its own mean are scaled."""
    if most == 0:
        return images
    factor = 1 + most * (2 * _uniform(images, generator) - 1)
    mean = images.mean((1, 2, 3), keepdim=True)
    return mean + factor * (images - mean)


def cut_out(images: Tensor, side: int, generator: Generator | None = None) -> Tensor:
    """Cutout: each image with a square of ``side`` pixels, centered anywhere in it, replaced by the image's mean."""
    if side == 0:
        return images
    _, _, height, width = images.shape
    top, left = ((_uniform(images, generator) * size).floor() - side // 2 for size in (height, width))
    rows = torch.arange(height, device=images.device).view(1, 1, height, 1)
    columns = torch.arange(width, device=images.device).view(1, 1, 1, width)
    inside = (rows >= top) & (rows < top + side) & (columns >= left) & (columns < left + side)
    return torch.where(inside, images.mean((1, 2, 3), keepdim=True), images)


def _uniform(images: Tensor, generator: Generator | None) -> Tensor:
    """A number in [0, 1) for each image, (B, 1, 1, 1)."""
    return torch.rand((len(images), 1, 1, 1), generator=generator, device=images.device, dtype=images.dtype)
