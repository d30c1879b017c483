"""The machine of ratings against sums over all its states, with and without missing ratings."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.core import DataError, HeldOut, Incomplete, UsageError
from deepcanon.data import Dataset
from deepcanon.models.energy.ratings_rbm import RatingsRBM

NAN = torch.nan
ROWS = torch.tensor(
    [[1, 3, NAN, 2], [NAN, NAN, 2, NAN], [3, 1, 1, 2], [NAN, NAN, NAN, NAN], [2, NAN, 3, 3]], dtype=torch.float64
)


def machine(features: int = 4, ratings: int = 3, units: int = 3, seed: int = 0, **arguments: Any) -> RatingsRBM:
    torch.manual_seed(seed)
    model = RatingsRBM(features, ratings, units, **arguments).double()
    with torch.no_grad():
        for tensor in (*model.parameters(), model.origin):
            tensor.copy_(torch.randn_like(tensor))
    return model


def joint_energy(model: RatingsRBM, row: Tensor, h: Tensor) -> float:
    """E(v, h) of one user, unit by unit: a rating that is missing has no term."""
    total = -float(model.hidden_bias.detach() @ h)
    for item, rating in enumerate(row.tolist()):
        if not math.isnan(rating):
            place = item * model.ratings + int(rating) - 1
            total -= float(model.visible_bias.detach()[place]) + float(model.weight.detach()[place] @ h)
    return total


def hidden(model: RatingsRBM) -> list[Tensor]:
    return [torch.tensor(state, dtype=torch.float64) for state in product((0.0, 1.0), repeat=model.units)]


def mass(model: RatingsRBM, row: Tensor) -> float:
    """The sum of exp(-E) over the hidden states."""
    return sum(math.exp(-joint_energy(model, row, h)) for h in hidden(model))


def fillings(model: RatingsRBM, row: Tensor) -> list[Tensor]:
    """All ratings that could stand where this row has some."""
    there = (~row.isnan()).nonzero().flatten().tolist()
    found = []
    for values in product(range(1, model.ratings + 1), repeat=len(there)):
        other = row.clone()
        other[there] = torch.tensor(values, dtype=row.dtype)
        found.append(other)
    return found


def test_the_free_energy_sums_out_the_hidden_units_of_what_is_rated() -> None:
    model = machine()
    expected = torch.tensor([-math.log(mass(model, row)) for row in ROWS], dtype=torch.float64)
    torch.testing.assert_close(model.energy(ROWS).detach(), expected, rtol=0, atol=1e-12)


def test_log_prob_is_normalized_over_the_items_that_are_rated() -> None:
    model = machine()
    assert model.likelihood_kind == "exact"
    expected = [math.log(mass(model, r) / sum(mass(model, other) for other in fillings(model, r))) for r in ROWS]
    found = model.log_prob(ROWS).detach()
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    assert found[3] == pytest.approx(0, abs=1e-12)  # of nothing there is only one


def test_the_conditionals_are_those_of_the_joint_distribution() -> None:
    model = machine()
    for row in ROWS:
        weights = torch.tensor([math.exp(-joint_energy(model, row, h)) for h in hidden(model)], dtype=torch.float64)
        expected = (weights.unsqueeze(1) * torch.stack(hidden(model))).sum(0) / weights.sum()
        torch.testing.assert_close(model.encode(row.unsqueeze(0)).detach()[0], expected, rtol=0, atol=1e-12)
    h = hidden(model)[5]
    shares = model._by_item(model._down(h.unsqueeze(0))).softmax(-1)[0]
    for item in range(4):
        row = torch.full((4,), NAN, dtype=torch.float64)
        energies = []
        for rating in (1, 2, 3):
            row[item] = rating
            energies.append(-joint_energy(model, row, h))
        expected = torch.tensor(energies, dtype=torch.float64).softmax(0)
        torch.testing.assert_close(shares[item].detach(), expected, rtol=0, atol=1e-12)


def predicted(model: RatingsRBM, row: Tensor, item: int) -> Tensor:
    """p(v_item = k | the other ratings of the row), by enumeration."""
    masses = []
    for rating in range(1, model.ratings + 1):
        other = row.clone()
        other[item] = rating
        masses.append(mass(model, other))
    return torch.tensor(masses, dtype=torch.float64) / sum(masses)


def test_predictions_are_the_exact_expectations() -> None:
    model, values = machine(), torch.arange(1.0, 4.0, dtype=torch.float64)
    mean, mode = model.predict(ROWS, how="mean"), model.predict(ROWS, how="mode")
    for row, means, modes in zip(ROWS, mean.detach(), mode, strict=True):
        for item in range(4):
            share = predicted(model, row, item)
            expected = float(row[item]) if not row[item].isnan() else float(share @ values)
            assert float(means[item]) == pytest.approx(expected, abs=1e-12)
            if row[item].isnan():
                assert int(modes[item]) == int(share.argmax()) + 1
    drawn = torch.stack([model.predict(ROWS, how="sample", generator=Generator().manual_seed(s)) for s in range(400)])
    share = predicted(model, ROWS[0], 2)
    counts = drawn[:, 0, 2].long().bincount(minlength=4)[1:]
    assert ((counts - 400 * share).square() / (400 * share)).sum() < 20


def test_metrics_are_those_of_held_out_ratings_or_of_each_given_the_others() -> None:
    model, values = machine(), torch.arange(1.0, 4.0, dtype=torch.float64)
    y = torch.full_like(ROWS, NAN)
    y[0, 2], y[1, 0], y[4, 1] = 3, 1, 2
    squares, surprises = [], []
    for row, item in ((0, 2), (1, 0), (4, 1)):
        share, truth = predicted(model, ROWS[row], item), int(y[row, item])
        squares.append((float(share @ values) - truth) ** 2)
        surprises.append(-math.log(share[truth - 1]))
    with torch.no_grad():
        found, alone = model.metrics(HeldOut(ROWS, y)), model.metrics(Incomplete(ROWS))
    assert float(found["rmse"]) == pytest.approx(math.sqrt(sum(squares) / 3), abs=1e-12)
    assert float(found["rating_nll"]) == pytest.approx(sum(surprises) / 3, abs=1e-12)
    squares = []
    for row in ROWS:
        for item in (~row.isnan()).nonzero().flatten().tolist():
            squares.append((float(predicted(model, row, item) @ values) - float(row[item])) ** 2)
    assert float(alone["rmse"]) == pytest.approx(math.sqrt(sum(squares) / len(squares)), abs=1e-12)


def test_the_gradient_by_hand_is_the_gradient_of_the_loss() -> None:
    model, batch = machine(gibbs_steps=3, weight_cost=0.1), Incomplete(ROWS)
    torch.manual_seed(1)
    terms = model.loss(batch)
    expected = torch.autograd.grad(sum(terms.values()), list(model.parameters()))  # type: ignore[arg-type]
    torch.manual_seed(1)
    found = model.gradient(batch)()
    assert found.keys() == terms.keys() == {"contrastive_divergence", "weight_cost"}
    for name, value in terms.items():
        torch.testing.assert_close(found[name], value.detach())
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_long_chains_give_the_gradient_of_the_likelihood_per_rating() -> None:
    model = machine(gibbs_steps=30, weight_cost=0.0)
    exact = torch.autograd.grad(-model.log_prob(ROWS).sum() / 11, list(model.parameters()))
    rounds, found = 40, []
    for seed in range(rounds):
        torch.manual_seed(seed)
        model.gradient(Incomplete(ROWS.repeat(100, 1)))
        found.append([parameter.grad for parameter in model.parameters()])
    for place, expected in enumerate(exact):
        estimates = torch.stack([gradients[place] for gradients in found])  # type: ignore[misc]
        error = estimates.std(0) / math.sqrt(rounds) + 1e-12
        assert ((estimates.mean(0) - expected).abs() / error).max() < 5


def test_chains_keep_what_is_missing_missing() -> None:
    model = machine(gibbs_steps=4)
    found = model.negatives(ROWS)
    assert torch.equal(found.isnan(), ROWS.isnan())
    assert set(found[~found.isnan()].tolist()) <= {1.0, 2.0, 3.0}


def test_annealing_over_the_rated_items_agrees_with_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine()
    exact = model.log_prob(ROWS).detach()
    monkeypatch.setattr(RatingsRBM, "MOST", 1)
    monkeypatch.setattr(RatingsRBM, "TEMPERATURES", 100)
    assert model.likelihood_kind == "estimate"
    draws = torch.stack(
        [model.log_prob(ROWS, samples=100, generator=Generator().manual_seed(seed)) for seed in range(5)]
    )
    error = draws.std(0) / math.sqrt(5)
    assert draws.std(0).max() < 0.3
    assert ((draws.mean(0) - exact).abs() < 6 * error + 0.02).all()
    whole = model.annealed_log_partition(chains=300, generator=Generator().manual_seed(0))
    assert abs(whole.value - model.exact_log_partition("hidden")) < 4 * whole.error  # type: ignore[operator]
    with pytest.raises(UsageError, match="are not binary; sum over the hidden ones"):
        model.exact_log_partition("visible")


def test_training_begins_at_how_often_each_rating_occurs() -> None:
    model = RatingsRBM(2, 3, 2)
    x = torch.tensor([[1.0, 2.0], [1.0, NAN], [3.0, NAN], [1.0, NAN]])
    model.prepare([Incomplete(x[:3]), Incomplete(x[3:])])
    overall = torch.tensor([4.0, 2.0, 2.0]) / 8  # with one more of each value
    expected = torch.stack([torch.tensor([3.0, 0.0, 1.0]) + 3 * overall, torch.tensor([0.0, 1.0, 0.0]) + 3 * overall])
    shares = model._by_item(model.visible_bias.detach()).softmax(-1)
    torch.testing.assert_close(shares, expected / expected.sum(1, keepdim=True))


@pytest.mark.parametrize("wrong", [0.0, 4.0, 2.5])
def test_what_is_not_a_rating_is_refused(wrong: float) -> None:
    model, x = machine(), ROWS.clone()
    x[0, 0] = wrong
    for ask in (model.log_prob, model.energy, model.predict, lambda x: model.prepare([Incomplete(x)])):
        with pytest.raises(DataError, match=f"ratings_rbm models ratings, whole numbers from 1 to 3.*have {wrong:g}"):
            ask(x)
    with pytest.raises(UsageError, match="ratings must be at least 2"):
        RatingsRBM(4, 1)


def test_accumulated_parts_make_the_same_loss_as_one_batch() -> None:
    """Rows with many and few ratings: parts are weighed by their ratings."""
    model, whole = machine(weight_cost=0.0), Incomplete(ROWS)
    parts = [whole.select(torch.tensor(rows)) for rows in ([0, 1], [2, 3, 4])]
    assert model.weight_of(whole) == 11
    gradients = []
    for batches in ([whole], parts):
        torch.manual_seed(0)
        total = torch.zeros_like(model.weight)
        for batch in batches:
            share = model.weight_of(batch) / model.weight_of(whole)
            data = (model.energy(batch.x).sum() / batch.weight) * share
            total += torch.autograd.grad(data, model.weight)[0]
        gradients.append(total)
    torch.testing.assert_close(*gradients)


def bias_baseline(train: Tensor, held_out: HeldOut, damping: float = 5.0) -> float:
    """The RMSE of mean + user's bias + item's bias, fitted in turn with so many ratings of damping."""
    there, x = ~train.isnan(), train.nan_to_num(0.0)
    mean = x.sum() / there.sum()
    user, item = torch.zeros(len(x), 1), torch.zeros(1, x.shape[1])
    for _ in range(20):
        item = ((x - mean - user) * there).sum(0, keepdim=True) / (there.sum(0, keepdim=True) + damping)
        user = ((x - mean - item) * there).sum(1, keepdim=True) / (there.sum(1, keepdim=True) + damping)
    error = ((mean + user + item).clamp(1, 5) - held_out.y)[held_out.asked]
    return float(error.square().mean().sqrt())


@pytest.mark.slow
def test_tastes_are_learned_beyond_the_biases_of_users_and_items() -> None:
    data: Dataset[Any] = dc.load_data("ratings")
    torch.manual_seed(0)
    model = RatingsRBM(100, 5, units=20)
    result = dc.fit(model, data, quiet=True, epochs=40)
    assert data.test is not None
    baseline = bias_baseline(data.train.x, data.test)
    assert 0.98 < baseline < 1.06
    assert result.test["rmse"] < baseline - 0.15
