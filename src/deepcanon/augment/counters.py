"""Counter-based random numbers: those of an example do not depend on the batch it is in."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from torch import Tensor

Counters = npt.NDArray[np.uint64]

GOLDEN = 0x9E3779B97F4A7C15


def mixed(counter: Counters) -> Counters:
    """A pseudorandom integer for each integer: the step of SplitMix64.

    References:
        | Fast splittable pseudorandom number generators (Steele et al., 2014), https://doi.org/10.1145/2660193.2660195

    >>> mixed(np.array([0, 1], dtype=np.uint64))
    array([16294208416658607535, 10451216379200822465], dtype=uint64)
    """
    z = counter + np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def unit(counter: Counters) -> npt.NDArray[np.float64]:
    """Mixed integers as numbers in [0, 1) with 53 random bits."""
    return (counter >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniforms(index: Tensor, count: int, *, seed: int, epoch: int) -> npt.NDArray[np.float64]:
    """Uniform random numbers in [0, 1), (B, count): a function of seed, epoch and the index of each example alone.

    Seed and epoch choose the initial state of a SplitMix64; each example has its own stretch of the sequence.

    >>> import torch
    >>> both = uniforms(torch.tensor([7, 9]), 3, seed=1, epoch=0)
    >>> bool((both[1:] == uniforms(torch.tensor([9]), 3, seed=1, epoch=0)).all())
    True
    """
    examples: Counters = index.long().cpu().numpy().view(np.uint64)
    offsets: Counters = np.arange(count, dtype=np.uint64)
    order = examples[:, None] * np.uint64(count) + offsets
    return unit(mixed(order * np.uint64(GOLDEN) + _start(seed, epoch)))


@lru_cache(maxsize=8)
def _start(seed: int, epoch: int) -> Counters:
    """The initial state of this seed and epoch; cached, as all batches of an epoch use the same one."""
    of_seed, of_epoch = (np.array([number % 2**64], dtype=np.uint64) for number in (seed, epoch))
    return mixed(mixed(of_seed) ^ of_epoch)
