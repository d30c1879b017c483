"""Random draws from a given generator, for torch's distributions and layers, which only use the global one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution


def draw(distribution: Distribution, generator: Generator | None = None, shape: tuple[int, ...] = ()) -> Tensor:
    """A sample of ``distribution`` with its random numbers taken from ``generator``.

    >>> coin = torch.distributions.Bernoulli(torch.full((8,), 0.5))
    >>> a, b = (draw(coin, torch.Generator().manual_seed(1)) for _ in range(2))
    >>> bool((a == b).all())
    True
    """
    if 0 in shape:  # which torch draws of some distributions and not of others
        with torch.random.fork_rng(devices=[]):
            one = distribution.sample()
        return one.new_empty(*shape, *one.shape)
    with drawing_from(generator):
        return distribution.sample(torch.Size(shape))


@contextmanager
def drawing_from(generator: Generator | None) -> Iterator[None]:
    """A context in which draws from the global generator come from this one; the global one stays untouched."""
    if generator is None:
        yield
        return
    cuda = generator.device.type == "cuda"
    outer = torch.cuda.get_rng_state(generator.device) if cuda else torch.get_rng_state()
    try:
        _set_global(generator, generator.get_state())
        yield
        generator.set_state(torch.cuda.get_rng_state(generator.device) if cuda else torch.get_rng_state())
    finally:
        _set_global(generator, outer)


def _set_global(generator: Generator, state: Tensor) -> None:
    if generator.device.type == "cuda":
        torch.cuda.set_rng_state(state, generator.device)
    else:
        torch.set_rng_state(state)
