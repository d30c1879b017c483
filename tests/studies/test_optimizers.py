"""Paths of optimizers: closed forms on quadratics, torch's own steps, and the best learning rates of the grid."""

import math

import pytest
import torch
from matplotlib.axes import Axes
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.optim import optimizer
from deepcanon.studies.optimizers import (
    RATES,
    VALLEYS,
    Valley,
    _paths,
    best_rates,
    cost,
    descend,
    everyone,
    optimizers,
    sentences,
)


def at(valley: str) -> Tensor:
    """The named start of a valley, alone."""
    return torch.tensor([VALLEYS[valley].start], dtype=torch.float64)


def test_gradient_descent_follows_its_closed_form() -> None:
    """On x²/10 + 10 y² each coordinate is multiplied by 1 - lr times its eigenvalue at every step."""
    (found,) = descend("sgd", VALLEYS["ravine"], at("ravine"), 0.09, 12, 1e-3)
    expected = [(-4.0 * (1 - 0.09 * 0.2) ** t, 0.6 * (1 - 0.09 * 20) ** t) for t in range(13)]
    assert [*map(list, found.path)] == [pytest.approx(point) for point in expected]


@pytest.mark.parametrize("name", everyone())
def test_descents_side_by_side_are_those_alone(name: str) -> None:
    valleys, rates = [VALLEYS["quadratic"], VALLEYS["ravine"]], [0.001, 0.01]
    starts = [torch.cat([at(valley), 0.9 * at(valley)]) for valley in ("quadratic", "ravine")]
    together = _paths(name, valleys, starts, rates, 15)
    for v, valley in enumerate(valleys):
        for r, lr in enumerate(rates):
            for s, start in enumerate(starts[v]):
                place = nn.Parameter(start.clone())
                mover = optimizer(name, [place], lr)

                def closure(place: nn.Parameter = place, valley: Valley = valley) -> float:
                    place.grad = None
                    height = valley.height(place[0], place[1])
                    height.backward()
                    return float(height.detach())

                points = [place.tolist()]
                for _ in range(15):
                    mover.step(closure)
                    points.append(place.tolist())
                assert together[v, r, s].tolist() == [pytest.approx(point, rel=1e-7, abs=1e-9) for point in points]


def test_no_rate_of_the_grid_is_better_on_average_than_the_one_chosen() -> None:
    valley, steps, tolerance = VALLEYS["quadratic"], 10, 1e-2
    starts = torch.cat([at("quadratic"), 1.2 * at("quadratic")])
    scores = best_rates("sgd", {"quadratic": valley}, {"quadratic": starts}, steps, tolerance)["quadratic"]
    assert set(RATES) <= scores.keys()
    for lr, score in scores.items():
        found = descend("sgd", valley, starts, lr, steps, tolerance)
        assert score == pytest.approx(sum(cost(each.reached, each.end, steps) for each in found) / 2)
    best = min(scores, key=lambda lr: scores[lr])
    assert min(scores) < best < max(scores)
    # at its best rate, the factors 1 - 2 lr and 1 - 4 lr say by themselves when a hundredth of the height is left
    shares = [((2.0 * (1 - 2 * best) ** t) ** 2 + 2 * (1.5 * (1 - 4 * best) ** t) ** 2) / 8.5 for t in range(11)]
    (named, _) = descend("sgd", valley, starts, best, steps, tolerance)
    assert named.reached == next(t for t in range(11) if shares[t] <= 1e-2)


def test_a_leap_out_of_the_valley_is_no_descent() -> None:
    """At the rate 10 RMSProp leaps a hundred units away, and from there in two steps to the minimum."""
    (leap,) = descend("rmsprop", VALLEYS["quadratic"], at("quadratic"), 10.0, 50, 1e-3)
    assert leap.reached is None
    assert leap.end == math.inf
    assert leap.path == ((-2.0, 1.5),)
    (diverged,) = descend("sgd", VALLEYS["rosenbrock"], at("rosenbrock"), 10.0, 50, 1e-3)
    assert diverged.reached is None


def test_low_enough_means_to_stay_there() -> None:
    """A heavy ball rolls through the minimum and up again; it has arrived when it no longer leaves."""
    (descent,) = descend("sgd:momentum=0.9", VALLEYS["quadratic"], at("quadratic"), 0.1, 150, 1e-2)
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


def test_the_figure_shows_every_path_inside_its_frame() -> None:
    state = torch.get_rng_state()
    finding = optimizers(names=("sgd", "adam"), steps=12, tolerance=0.1, starts=2)
    assert torch.equal(torch.get_rng_state(), state)
    panels = finding.figure.findobj(Axes)
    assert len(panels) == 2 * len(VALLEYS)
    shown = [each for found in finding.numbers["descents"].values() for each in found.values()]
    for axes, each in zip(panels, shown, strict=True):
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        assert all(left < x < right and bottom < y < top for x, y in each["path"])
    with pytest.raises(UsageError, match="tolerance"):
        optimizers(tolerance=2.0)


def test_the_headline_follows_the_numbers() -> None:
    def planted(sgd: list[int | None], adam: list[int | None]) -> str:
        found = {name: {"reached": reached, "ends": [0.5] * 3} for name, reached in (("sgd", sgd), ("adam", adam))}
        return sentences({"steps": 50, "descents": {"ravine": found}})[0]

    assert planted([5, 6, 5], [20, 22, 21]) == "Fewest steps, each at its best rate: sgd on the ravine."
    assert planted([5, 30, 5], [6, 6, 7]) == "Fewest steps, each at its best rate: adam and sgd on the ravine."
    assert planted([5, None, 5], [None, 6, 7]) == "Fewest steps, each at its best rate: none on the ravine."
