"""Data sets of torch are read as they are; those that are not the same twice, or choose by themselves, are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

import deepcanon as dc
from deepcanon.core import DataError, UsageError
from deepcanon.data import of
from deepcanon.data.torch_datasets import READ_AT_ONCE, parts_of

COUNT = READ_AT_ONCE + 10
X = torch.randn(COUNT, 2, generator=torch.Generator().manual_seed(0))


class Each(Dataset[Any]):
    """What a function makes of each example."""

    def __init__(self, make: Any, count: int = COUNT) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Any:
        return self.make(place)


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        while True:
            yield torch.zeros(2)


def test_examples_come_in_their_order_and_their_precision() -> None:
    (x,) = parts_of(Each(lambda place: X[place]))
    assert torch.equal(x, X)
    assert of(Each(lambda place: X[place].double())).train.x.dtype == torch.float64  # as tensors of float64 are
    rows = of(Each(lambda place: (X[place].double().numpy(), 0.5)))
    assert rows.train.x.dtype == torch.float32  # as arrays are
    assert dict(rows.sizes) == {"features": 2, "targets": 1}


def test_reading_draws_from_no_one_elses_random_numbers() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with pytest.raises(DataError, match=r"are others when they are read again.*augmentation"):
        of(Each(lambda place: X[place] + torch.randn(2)))
    assert torch.equal(before, torch.get_rng_state())


def test_a_loader_puts_examples_together_in_its_own_way() -> None:
    loader = DataLoader(
        TensorDataset(X), batch_size=4, shuffle=True, collate_fn=lambda rows: torch.stack([-r[0] for r in rows])
    )
    assert torch.equal(of(loader).train.x, -X)


WRONG: dict[str, tuple[Any, str]] = {
    "weighted": (
        DataLoader(TensorDataset(X), sampler=WeightedRandomSampler(torch.ones(COUNT).tolist(), COUNT)),
        "not by a WeightedRandomSampler: give the data set of the loader",
    ),
    "replaced": (DataLoader(TensorDataset(X), sampler=torch.utils.data.RandomSampler(X, replacement=True)), "RandomS"),
    "without batches": (DataLoader(TensorDataset(X), batch_size=None), "mini-batches are drawn by the trainer"),
    "endless": (Endless(), "does not say how many examples it has"),
    "empty": (Each(lambda place: X[place], 0), "Each has no examples"),
    "ragged": (Each(lambda place: X[: 1 + place]), "cannot be put together"),
    "named": (Each(lambda place: {"x": X[place]}), r"must be x or \(x, y\), tensors or numbers; got dict"),
    "three": (Each(lambda place: (X[place], 0, 0)), r"must be x or \(x, y\)"),
    "a tuple of three": ((X, X, X), r"a tuple of data is \(x,\) or \(x, y\), got one of 3"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_said(case: str) -> None:
    data, sentence = WRONG[case]
    with pytest.raises(UsageError, match=sentence):
        of(data)


def test_labels_are_given_once() -> None:
    with pytest.raises(UsageError, match="have their y already"):
        of((X, torch.zeros(COUNT)), torch.zeros(COUNT))


def test_further_splits_may_be_loaders() -> None:
    y = torch.arange(COUNT) % 3
    data = of(TensorDataset(X, y), valid=DataLoader(TensorDataset(X[:20], y[:20]), batch_size=8), test=(X[:9], y[:9]))
    assert (len(data.split("valid")), len(data.split("test"))) == (20, 9)
    assert dc.data.of((X, y)).valid is None
