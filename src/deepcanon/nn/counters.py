"""Random numbers that are functions of counters: the same for an example in whatever company it is drawn."""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # as signed numbers, which wrap around as unsigned ones do
FIRST = 0xBF58476D1CE4E5B9 - 2**64
SECOND = 0x94D049BB133111EB - 2**64


def mixed(counter: Tensor) -> Tensor:
    """Each integer as another one that looks random: the step of SplitMix64, all 64 bits of it, as signed numbers.

    References:
        | Fast splittable pseudorandom number generators (Steele et al., 2014), https://doi.org/10.1145/2660193.2660195

    >>> mixed(torch.tensor([0, 1]))
    tensor([-2152535657050944081, -7995527694508729151])
    """
    z = counter + GOLDEN
    z = (z ^ _shifted_right(z, 30)) * FIRST
    z = (z ^ _shifted_right(z, 27)) * SECOND
    return z ^ _shifted_right(z, 31)


def uniforms(index: Tensor, count: int, *, seed: int, epoch: int) -> Tensor:
    """For each example ``count`` numbers in [0, 1), (B, count), decided by seed, epoch and the example's index alone.

    >>> both = uniforms(torch.tensor([7, 9]), 3, seed=1, epoch=0)
    >>> torch.equal(both[1:], uniforms(torch.tensor([9]), 3, seed=1, epoch=0))
    True
    """
    key = index.long()
    for number in (epoch, seed):
        key = mixed(key) ^ number
    places = torch.arange(count, device=index.device)
    return _shifted_right(mixed(mixed(key).unsqueeze(-1) + places), 11).double() * 2.0**-53


def _shifted_right(z: Tensor, bits: int) -> Tensor:
    """The shift of an unsigned number: zeros come in from the left, not copies of the sign."""
    kept: Tensor = (z >> bits) & ((1 << (64 - bits)) - 1)
    return kept
