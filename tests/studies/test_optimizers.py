"""Paths of optimizers: closed forms on quadratics, torch's own steps, and the best learning rates of the grid."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.studies.optimizers import RATES, VALLEYS, best_descents, descend, everyone, optimizers


def test_gradient_descent_follows_its_closed_form() -> None:
    """On x²/10 + 10 y² each coordinate is multiplied by 1 - lr times its eigenvalue at every step."""
    path = descend("sgd", VALLEYS["ravine"], 0.09, 12, 1e-3).path
    expected = [(-4.0 * (1 - 0.09 * 0.2) ** t, 0.6 * (1 - 0.09 * 20) ** t) for t in range(13)]
    assert [*map(list, path)] == [pytest.approx(point) for point in expected]


@pytest.mark.parametrize("name", ["sgd:momentum=0.9", "adam", "rprop", "lbfgs:max_iter=1,history_size=5"])
def test_descents_side_by_side_are_those_of_torch_alone(name: str) -> None:
    valley = VALLEYS["rosenbrock"]
    best = best_descents(name, list(VALLEYS.values()), 15, 0.5)[list(VALLEYS).index("rosenbrock")]
    place = nn.Parameter(torch.tensor(valley.start, dtype=torch.float64))
    kinds: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "sgd:momentum=0.9": lambda: torch.optim.SGD([place], lr=best.lr, momentum=0.9),
        "adam": lambda: torch.optim.Adam([place], lr=best.lr),
        "rprop": lambda: torch.optim.Rprop([place], lr=best.lr),
        "lbfgs:max_iter=1,history_size=5": lambda: torch.optim.LBFGS([place], lr=best.lr, max_iter=1),
    }
    mover = kinds[name]()

    def closure() -> float:
        mover.zero_grad()
        height = valley.height(place[0], place[1])
        height.backward()
        return float(height.detach())

    points = [place.tolist()]
    for _ in range(15):
        mover.step(closure)
        points.append(place.tolist())
    assert [*map(list, best.path)] == [pytest.approx(point, rel=1e-9) for point in points]


def test_no_rate_of_the_grid_is_better_than_the_one_chosen() -> None:
    valley = VALLEYS["quadratic"]
    (best,) = best_descents("sgd", [valley], 10, 1e-2)
    ranks = {lr: descend("sgd", valley, lr, 10, 1e-2).rank for lr in RATES}
    assert best.lr in RATES
    assert best.rank == min(ranks.values())
    # at its best rate, the factors 1 - 2 lr and 1 - 4 lr say by themselves when a hundredth of the height is left
    shares = [((2.0 * (1 - 2 * best.lr) ** t) ** 2 + 2 * (1.5 * (1 - 4 * best.lr) ** t) ** 2) / 8.5 for t in range(11)]
    assert best.reached == next(t for t in range(11) if shares[t] <= 1e-2)


def test_a_descent_that_diverges_ends_where_numbers_end() -> None:
    descent = descend("sgd", VALLEYS["rosenbrock"], 10.0, 50, 1e-3)
    assert descent.reached is None
    assert descent.end == math.inf
    assert all(math.isfinite(number) for point in descent.path for number in point)


def test_low_enough_means_to_stay_there() -> None:
    """A heavy ball rolls through the minimum and up again; it has arrived when it no longer leaves."""
    valley = VALLEYS["quadratic"]
    descent = descend("sgd:momentum=0.9", valley, 0.1, 150, 1e-2)
    heights = [(x**2 + 2 * y**2) / 8.5 for x, y in descent.path]
    first = next(t for t, height in enumerate(heights) if height <= 1e-2)
    assert descent.reached is not None
    assert first < descent.reached
    assert heights[descent.reached - 1] > 1e-2
    assert max(heights[descent.reached :]) <= 1e-2


def test_valleys_are_lowest_at_their_minima() -> None:
    for valley in VALLEYS.values():
        for spot in valley.minima:
            place = torch.tensor(spot, dtype=torch.float64, requires_grad=True)
            height = valley.height(place[0], place[1])
            (slope,) = torch.autograd.grad(height, place)
            assert float(height.detach()) == pytest.approx(valley.floor, abs=1e-12)
            assert slope.tolist() == pytest.approx([0, 0], abs=1e-12)


def test_the_study_tables_every_optimizer() -> None:
    state = torch.get_rng_state()
    finding = optimizers(names=("sgd", "adam"), steps=12, tolerance=0.1)
    assert torch.equal(torch.get_rng_state(), state)
    assert list(finding.numbers["descents"]) == list(VALLEYS)
    for found in finding.numbers["descents"].values():
        assert list(found) == ["sgd", "adam"]
        assert all(each["lr"] in RATES for each in found.values())
    assert finding.numbers["descents"]["quadratic"]["sgd"]["reached"] is not None
    assert {"sgd", "adam", "rmsprop", "adagrad", "lbfgs:max_iter=1,history_size=5"} <= set(everyone())
    with pytest.raises(UsageError, match="tolerance"):
        optimizers(tolerance=2.0)
