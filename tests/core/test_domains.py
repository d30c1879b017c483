"""Batches of two domains go through each in an order of its own, and lose and repeat no more than they must."""

import pytest
import torch

from deepcanon.core import Batch, DataError, ImagePairs, TwoDomains
from deepcanon.data import from_tensors


def numbered(x: int, y: int) -> TwoDomains:
    return TwoDomains(torch.arange(float(x)).view(-1, 1), 100 + torch.arange(float(y)).view(-1, 1))


def test_the_smaller_domain_goes_round() -> None:
    batch = numbered(3, 7)
    assert (len(batch), batch.weight) == (7, 7)
    part = batch.select(torch.tensor([0, 2, 3, 6]))
    assert part.x.flatten().tolist() == [0, 2, 0, 0]
    assert part.y.flatten().tolist() == [100, 102, 103, 106]
    assert (len(part), part.weight) == (4, 4)


def test_an_epoch_shows_the_larger_domain_once_and_the_smaller_in_rounds() -> None:
    batch = numbered(7, 3)
    order = batch.order(2, torch.Generator().manual_seed(0))
    assert order.shape == (7, 2)
    shown = batch.select(order)
    assert sorted(shown.x.flatten().tolist()) == list(range(7))
    for start in (0, 3):
        assert sorted(shown.y[start : start + 3].flatten().tolist()) == [100, 101, 102]
    assert torch.equal(order, batch.order(2, torch.Generator().manual_seed(0)))


def test_the_domains_are_shuffled_apart() -> None:
    """Were both in one order, the same examples would always meet."""
    batch = numbered(200, 200)
    orders = [batch.order(10, torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    for order in orders:
        assert (order[:, 0] == order[:, 1]).sum() < 20
    partner = [dict(order.tolist()) for order in orders]
    assert sum(partner[0][i] == partner[1][i] for i in range(200)) < 20


def test_parts_share_no_example() -> None:
    batch = numbered(40, 25)
    index = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    one, two = batch.part(index[:10]), batch.part(index[10:])
    for domain in ("x", "y"):
        rows = [set(getattr(part, domain).flatten().tolist()) for part in (one, two)]
        assert rows[0] & rows[1] == set()
        assert rows[0] | rows[1] == set(getattr(batch, domain).flatten().tolist())


def test_a_domain_without_examples_is_refused() -> None:
    with pytest.raises(DataError, match="each domain needs examples: got 4 of x and 0 of y"):
        TwoDomains(torch.zeros(4, 2), torch.zeros(0, 2))
    assert len(numbered(5, 3).select(torch.zeros(0, dtype=torch.long))) == 0  # a share of a batch may be empty


def test_pairs_stay_pairs() -> None:
    x = torch.arange(6.0).view(6, 1)
    pairs = ImagePairs(x, 10 * x)
    shown = pairs.select(pairs.order(2, torch.Generator().manual_seed(0)))
    assert torch.equal(shown.y, 10 * shown.x)
    assert isinstance(shown, ImagePairs)
    part = pairs.part(torch.tensor([5, 1]))
    assert torch.equal(part.y, 10 * part.x)
    with pytest.raises(DataError, match="every example needs one image: got 6 examples and 5 images"):
        ImagePairs(x, x[:5])


def test_who_may_learn_from_domains() -> None:
    assert ImagePairs.is_a(TwoDomains)
    assert not TwoDomains.is_a(ImagePairs)
    assert not TwoDomains.is_a(Batch)
    assert not from_tensors(torch.zeros(3, 2)).train.is_a(TwoDomains)
