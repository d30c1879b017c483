"""Sample quality against what is known: equal distributions, collapsed ones, copies, brute force."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from deepcanon.comparison.quality import FEWEST, MOST, NEIGHBORS, Yardstick, nearest, two_sample_accuracy
from deepcanon.core import DataError


def normal(count: int, seed: int, features: int = 2) -> Tensor:
    return torch.randn(count, features, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(autouse=True)
def _whole_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forest as users have it, here where its answers are what is tested."""
    monkeypatch.setattr("deepcanon.comparison.quality.TREES", 100)


@pytest.fixture(scope="module")
def yardstick() -> Yardstick:
    made = Yardstick.of(normal(2000, 0), normal(400, 1))
    assert made is not None
    return made


@pytest.mark.slow
def test_a_forest_is_at_one_half_where_both_are_drawn_alike_and_right_where_they_are_apart() -> None:
    held_out = normal(500, 0)
    alike = two_sample_accuracy(normal(500, 1), held_out)
    assert abs(alike - 0.5) < 4 * (0.25 / 1000) ** 0.5
    assert two_sample_accuracy(normal(500, 1) + 10, held_out) == 1
    assert 0.6 < two_sample_accuracy(normal(500, 1) + 1, held_out) < 0.9


def test_as_many_of_each_are_compared() -> None:
    """Else a forest that always says "sample" would be right more often than not."""
    assert abs(two_sample_accuracy(normal(4000, 1), normal(250, 0)) - 0.5) < 4 * (0.25 / 500) ** 0.5


def test_precision_and_coverage_are_what_counting_gives(yardstick: Yardstick) -> None:
    samples = 1.5 * normal(300, 3)
    quality = yardstick.judge(samples)
    real = yardstick.held_out.double()
    inside, covered = [False] * len(samples), 0
    for point in real:
        radius = (real - point).norm(dim=1).sort().values[NEIGHBORS]  # place 0 is the point itself
        within = (samples.double() - point).norm(dim=1) <= radius
        covered += bool(within.any())
        inside = [a or b for a, b in zip(inside, within.tolist(), strict=True)]
    assert quality["precision"] == sum(inside) / len(samples)
    assert quality["coverage"] == covered / len(real)
    assert 0 < quality["coverage"] < 1
    assert 0 < quality["precision"] < 1


def test_a_collapsed_model_is_precise_and_covers_little(yardstick: Yardstick) -> None:
    quality = yardstick.judge(torch.zeros(400, 2))
    assert quality["precision"] == 1
    assert quality["coverage"] < 0.1


@pytest.mark.slow
def test_copies_are_detected_and_new_draws_are_not(yardstick: Yardstick) -> None:
    copied, fresh = yardstick.judge(yardstick.train[:400]), yardstick.judge(normal(400, 9))
    assert copied["copies"] == 1
    assert fresh["copies"] == pytest.approx(0.05, abs=0.04)


def test_training_data_are_about_the_best_there_is(yardstick: Yardstick) -> None:
    reference = yardstick.judge_training_data()
    assert abs(reference["two_sample"] - 0.5) < 0.08
    assert reference["precision"] > 0.9
    assert reference["coverage"] > 0.9
    assert reference["copies"] is None


def test_equal_distances_of_zeros_and_ones_count_as_equal() -> None:
    """With rounding, a sample that lies exactly on the edge of a ball would fall out of it."""
    bits = (torch.rand(300, 49, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    made = Yardstick.of(bits, bits[:200])
    assert made is not None
    squares = made.radii.square()
    assert torch.equal(squares.round().sqrt(), made.radii)
    assert torch.equal(made.novelty, torch.zeros(200, dtype=torch.float64))
    assert made.judge(bits[:200])["copies"] == 0  # a held-out example that is a training example is no nearer


def test_few_data_make_no_yardstick_and_many_are_thinned() -> None:
    assert Yardstick.of(normal(50, 0), normal(FEWEST - 1, 1)) is None
    made = Yardstick.of(normal(50, 0), normal(MOST + 1, 1))
    assert made is not None
    assert len(made.held_out) == MOST


def test_samples_that_are_not_finite_are_refused(yardstick: Yardstick) -> None:
    with pytest.raises(DataError, match="not finite"):
        yardstick.judge(torch.full((10, 2), torch.nan))


def test_the_nearest_of_many_is_found_over_all_chunks() -> None:
    rows, others = normal(7, 0, 3), normal(9001, 1, 3)
    expected = torch.stack([(others.double() - row).norm(dim=1).min() for row in rows.double()])
    assert torch.allclose(nearest(rows, others), expected, atol=1e-9)
