"""The variance of a batch's gradient: the formulas, all batches one by one, and drawn batches agree."""

import itertools

import pytest
import torch
from torch import Generator, Tensor

from deepcanon import find
from deepcanon.core import Labeled
from deepcanon.studies.gradient_noise import (
    batch_variance,
    drawn_counts,
    enumerated_variance,
    example_gradients,
    gradient_noise,
    spread,
    step_table,
)


def vectors(count: int) -> Tensor:
    return torch.randn(count, 3, generator=Generator().manual_seed(0), dtype=torch.float64) + 1


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_going_through_all_batches_gives_the_formula(size: int, replacement: bool) -> None:
    """Batches in every order, one by one, as NumPy's own variance would see them."""
    rows = vectors(5)
    orders = itertools.product(range(5), repeat=size) if replacement else itertools.permutations(range(5), size)
    means = torch.stack([rows[list(order)].mean(0) for order in orders])
    true = float(means.var(0, unbiased=False).sum())
    assert enumerated_variance(rows, size, replacement) == pytest.approx(true, rel=1e-12, abs=1e-12)
    formula = batch_variance(spread(rows), size, None if replacement else 5)
    assert formula == pytest.approx(true, rel=1e-12, abs=1e-12)
    torch.testing.assert_close(means.mean(0), rows.mean(0))


def test_gradients_of_examples_are_those_of_batches_of_one() -> None:
    torch.manual_seed(0)
    model = find("mlp")(features=4, classes=3, hidden=(5,)).double()
    batch = Labeled(torch.randn(6, 4, dtype=torch.float64), torch.arange(6) % 3)
    rows = example_gradients(model, batch)
    for chosen in (torch.tensor([2]), torch.tensor([0, 5, 5])):
        model.zero_grad()
        model.loss(batch.select(chosen))["nll"].backward()
        whole = torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])
        torch.testing.assert_close(whole, rows[chosen].mean(0))


def test_drawn_batches_hold_what_they_should() -> None:
    generator = Generator().manual_seed(0)
    without = drawn_counts(10, 4, 500, False, generator)
    assert without.max() == 1
    assert bool((without.sum(1) == 4).all())
    again = drawn_counts(10, 4, 500, True, generator)
    assert again.max() > 1
    assert bool((again.sum(1) == 4).all())
    for counts in (without, again):
        torch.testing.assert_close(counts.mean(0), torch.full((10,), 0.4).double(), rtol=0.2, atol=0)


def test_the_table_of_steps_and_variances() -> None:
    """The factors that follow from the formulas, for a mean loss and for a sum."""
    rows = step_table(vectors(70) + 3, 4000, Generator().manual_seed(0))
    expected = {
        ("2 x step size", "mean"): [2, 1],
        ("2 x step size", "sum"): [2, 1],
        ("2 x batch size", "mean"): [1, 0.5],
        ("2 x batch size", "sum"): [2, 2],
        ("2 x step size, half the batch", "mean"): [2, 2],
        ("2 x step size, half the batch", "sum"): [1, 0.5],
    }
    assert {(row["change"], row["loss"]): row["expected"] for row in rows} == expected
    for row in rows:
        assert [row["length"], row["variance"]] == pytest.approx(row["expected"], rel=0.08)


def test_the_study_measures_what_it_expects() -> None:
    state = torch.get_rng_state()
    numbers = gradient_noise(find("mlp"), hidden=4, examples=64, few=4, draws=400, steps=5).numbers
    assert torch.equal(torch.get_rng_state(), state)
    small = numbers["enumerated"]
    for kind in ("with", "without"):
        assert small[kind] == pytest.approx(small[f"expected_{kind}"], abs=1e-12)
        for stage in numbers["drawn"].values():
            assert stage[kind] == pytest.approx(stage[f"expected_{kind}"], rel=0.25, abs=1e-12)
    assert list(numbers["drawn"]) == ["at the start", "after 5 steps"]
