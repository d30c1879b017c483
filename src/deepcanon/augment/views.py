"""Random views of examples for contrastive learning: images moved and disturbed, other examples with noise."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from deepcanon.augment.motions import Augment
from deepcanon.augment.perturbations import noisy


def viewed(x: Tensor, strength: float, *, flip: bool = False, generator: Generator | None = None) -> Tensor:
    """A random view of each example; at strength 0 it is the example itself, and nothing is drawn.

    An image is rotated by up to 30 degrees times ``strength``, sheared and stretched by up to 0.4 and translated by up
    to 0.2 of its side times ``strength``, and with ``flip`` it is mirrored half of the time. It gets Gaussian noise
    with a fifth of ``strength`` of the batch's standard deviation, other examples, (B, features), with all of it.

    >>> x = torch.zeros(2, 3)
    >>> viewed(x, 0.0) is x
    True
    """
    if strength == 0:
        return x
    if x.ndim != 4:
        return noisy(x, strength * float(x.std()), generator) if x.device.type != "meta" else torch.empty_like(x)
    motion = Augment(
        flip=0.5 if flip else 0.0, rotate=30 * strength, shear=0.4 * strength, stretch=0.4 * strength,
        translate=min(1.0, 0.2 * strength), border="zeros",
    )  # fmt: skip
    device = "cpu" if generator is None else generator.device
    # A batch does not say which examples of the data it holds: fresh random numbers stand in for their indices.
    fresh = torch.randint(2**62, (len(x),), generator=generator, device=device)
    return noisy(motion(x, fresh, seed=0, epoch=0), 0.2 * strength * float(x.std()), generator)
