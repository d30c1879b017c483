"""Ratings as a list give the products of the one-hot table."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from deepcanon.models.energy._rated_entries import Rated

K = 3


def table() -> Tensor:
    random = torch.Generator().manual_seed(0)
    x = torch.randint(1, K + 1, (6, 5), generator=random).double()
    x[torch.rand(6, 5, generator=random) < 0.5] = torch.nan
    x[2] = torch.nan
    return x


def whole(x: Tensor) -> Tensor:
    codes = one_hot(x.nan_to_num(1.0).long() - 1, K).double() * ~x.isnan().unsqueeze(2)
    return codes.flatten(1)


def test_products_up_and_down_are_those_of_the_whole_table() -> None:
    x, weight = table(), torch.randn(5 * K, 4, dtype=torch.float64, requires_grad=True)
    rated = Rated(x, K)
    found = rated.up(rated.codes, weight)
    torch.testing.assert_close(found, whole(x) @ weight)
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), weight),
        torch.autograd.grad((whole(x) @ weight).square().sum(), weight),
    )
    h = torch.randn(6, 4, dtype=torch.float64)
    every = (h @ weight.detach().T).view(6, 5, K)
    torch.testing.assert_close(rated.down(h, weight.detach()), every[rated.rows, rated.items])
    torch.testing.assert_close(rated.table(rated.codes + 1.0), x.float(), equal_nan=True)


def test_rows_are_gathered_at_the_places_of_both_ratings() -> None:
    x = table()
    rated, rows = Rated(x, K), torch.randn(12, 4, dtype=torch.float64)
    other = (rated.codes + 1) % K
    expected = whole(x).T @ rows[:6] + whole(rated.table(other + 1.0)).T @ rows[6:]
    torch.testing.assert_close(rated.gathered((rated.codes, other), rows), expected)


def test_nothing_rated_gives_zeros() -> None:
    rated = Rated(torch.full((2, 5), torch.nan), K)
    weight = torch.randn(5 * K, 4)
    assert len(rated) == 0
    assert torch.equal(rated.up(rated.codes, weight), torch.zeros(2, 4))
    assert rated.down(torch.ones(2, 4), weight).shape == (0, K)
    assert torch.equal(rated.gathered((rated.codes, rated.codes), torch.ones(4, 3)), torch.zeros(5 * K, 3))
