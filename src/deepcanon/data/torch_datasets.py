"""Data sets and loaders of torch, read into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)
from torch.utils.data import Dataset as TorchDataset

from deepcanon.core import DataError, UsageError
from deepcanon.core.memory import need

READ_AT_ONCE = 256
READ_TWICE = 8
"""So many examples are read twice, to see whether they are the same again."""


def parts_of(data: Any) -> tuple[Any, ...]:
    """The parts of data in memory, x or x and y: of a tuple its own, of a torch data set or loader all its examples.

    >>> from torch.utils.data import TensorDataset
    >>> [part.shape for part in parts_of(TensorDataset(torch.zeros(6, 2), torch.zeros(6)))]
    [torch.Size([6, 2]), torch.Size([6])]
    """
    if isinstance(data, TorchDataset):
        return _read(data, default_collate)
    if isinstance(data, DataLoader):
        return _read(data.dataset, _collate_of(data))
    if isinstance(data, tuple):
        if len(data) not in (1, 2):
            raise UsageError(
                f"a tuple of data is (x,) or (x, y), got one of {len(data)}; from_tensors takes other parts"
            )
        return data
    return (data,)


def _collate_of(loader: DataLoader[Any]) -> Callable[[list[Any]], Any]:
    """How a loader puts examples together; one that chooses examples by itself is refused, since the trainer does."""
    sampler = loader.sampler
    plain = isinstance(sampler, SequentialSampler) or (
        isinstance(sampler, RandomSampler) and not sampler.replacement and sampler.num_samples == len(sampler)
    )
    if loader.batch_size is None or not plain:
        kind = type(loader.batch_sampler if loader.batch_size is None and loader.batch_sampler else sampler).__name__
        raise UsageError(
            f"mini-batches are drawn by the trainer, each example once in an epoch, not by a {kind}: give the data "
            "set of the loader; class_weight balances classes"
        )
    return loader.collate_fn


def _read(data: TorchDataset[Any], collate: Callable[[list[Any]], Any]) -> tuple[Any, ...]:
    """All examples of a torch data set, in its order."""
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        raise DataError(f"{type(data).__name__} does not say how many examples it has: collect them into tensors")
    count = len(data)
    if count == 0:
        raise DataError(f"{type(data).__name__} has no examples")

    def some(start: int, stop: int) -> list[Tensor]:
        try:
            found = collate([data[place] for place in range(start, min(stop, count))])
        except (TypeError, RuntimeError) as error:
            raise DataError(f"the examples of {type(data).__name__} cannot be put together: {error}") from error
        parts = list(found) if isinstance(found, tuple | list) else [found]
        if len(parts) not in (1, 2) or not all(isinstance(part, Tensor) for part in parts):
            kinds = " and ".join(type(part).__name__ for part in parts)
            raise DataError(f"an example of {type(data).__name__} must be x or (x, y), tensors or numbers; got {kinds}")
        return parts

    with torch.random.fork_rng(devices=[]):  # what is random in them draws from no one else's random numbers
        first, again = some(0, READ_TWICE), some(0, READ_TWICE)
        if not all(torch.equal(one, other) for one, other in zip(first, again, strict=True)):
            raise DataError(
                f"the examples of {type(data).__name__} are others when they are read again; data are read once: leave "
                "out what is random, and train the method augmentation, which draws anew at every step"
            )
        size = sum(part.nbytes for part in first) / len(first[0])
        need(2 * count * size, f"the {count:,} examples of {type(data).__name__}", "give fewer, a Subset for instance")
        chunks = [some(start, start + READ_AT_ONCE) for start in range(0, count, READ_AT_ONCE)]
    example = data[0]
    x = example[0] if isinstance(example, tuple | list) else example
    parts = [torch.cat(part) for part in zip(*chunks, strict=True)]
    return (parts[0] if isinstance(x, Tensor) else parts[0].numpy(), *parts[1:])
