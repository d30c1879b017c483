"""Shattered gradients: measured correlations are those of theory, and fall with depth where they must."""

import itertools
import math

import pytest
import torch

from deepcanon.studies.shattered_gradients import correlation, shattered_gradients, theoretical


@pytest.mark.slow
def test_gradients_lose_each_other_with_depth_only_without_residuals() -> None:
    depths = (1, 3, 8)
    found = shattered_gradients(depths=depths, width=128, nets=16, points=32, lag=0.4)
    assert found.numbers["angle"] == pytest.approx(math.pi / 8)
    kinds = found.numbers["kinds"]
    for result in kinds.values():
        assert result["measured"] == pytest.approx(result["theory"], abs=0.06)
    assert all(after < before - 0.1 for before, after in itertools.pairwise(kinds["plain"]["measured"]))
    assert kinds["plain"]["measured"][-1] < kinds["residual"]["measured"][-1] - 0.1
    small = kinds["small residual"]["measured"]
    assert min(small) > 0.85
    assert small[-1] > small[0] - 0.1
    for kind, result in kinds.items():  # the headline has the number of each kind, next to its name
        assert f"{result['measured'][-1]:.3f} ± {result['errors'][-1]:.3f} in {kind} nets" in found.says[0]
        assert 0 < result["errors"][-1] < 0.1


def test_the_theory_of_one_step_is_that_of_gaussian_pairs() -> None:
    """The angle after a rectifier, and how often two rectifiers are open together, by drawing."""
    angle = 1.0
    first, other = torch.randn(2, 400_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    second = math.cos(angle) * first + math.sin(angle) * other
    together = ((first > 0) & (second > 0)).double().mean().item() / 0.5
    assert theoretical(angle, 1, math.inf) == pytest.approx(together, abs=5e-3)
    cosine = 2 * (first.relu() * second.relu()).mean().item()
    assert theoretical(angle, 2, math.inf) == pytest.approx(together * (1 - math.acos(cosine) / math.pi), abs=1e-2)
    half = theoretical(angle, 1, 1.0)  # the identity keeps all, the layer its share
    assert half == pytest.approx((1 + together) / 2, abs=5e-3)


def test_correlations_by_lag_are_those_of_the_definition() -> None:
    curves = torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    by_hand = torch.stack([(curves * curves.roll(-lag, 1)).sum() for lag in range(8)])
    torch.testing.assert_close(correlation(curves), by_hand / by_hand[0])
