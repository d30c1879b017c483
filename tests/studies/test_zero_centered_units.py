"""Zero-centered units: signs counted by enumeration, condition numbers and distances in closed form."""

import itertools
import math

import pytest
import torch

from deepcanon.studies.zero_centered_units import condition, descent, distance, gradients, one_sign, zero_centered_units


def test_all_patterns_of_signs_have_one_sign_in_two_cases() -> None:
    for n in (1, 2, 5):
        patterns = torch.tensor([*itertools.product((-1.0, 1.0), repeat=n)], dtype=torch.float64)
        assert one_sign(gradients(patterns, torch.ones(len(patterns)).double())) == pytest.approx(2.0 ** (1 - n))
        assert one_sign(gradients(patterns.abs(), torch.randn(len(patterns)).double())) == 1


def test_gradients_are_error_times_output() -> None:
    h, errors = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    torch.testing.assert_close(gradients(h, errors), errors[:, None] * h)


def test_positive_units_have_one_sign_always_and_centered_ones_by_chance() -> None:
    found = zero_centered_units(units=(2, 4), examples=20_000).numbers
    assert found["kinds"]["sigmoid"]["one_sign"] == found["kinds"]["relu"]["one_sign"] == [1, 1]
    for share, chance in zip(found["kinds"]["tanh"]["one_sign"], (0.5, 0.125), strict=True):
        assert abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / 20_000)
    assert found["kinds"]["relu"]["mean"] == pytest.approx(1 / math.sqrt(2 * math.pi), abs=1e-9)
    for kind in found["kinds"].values():
        assert kind["condition"] == pytest.approx(kind["condition_theory"], rel=0.08)


def test_the_condition_number_is_that_of_a_matrix_of_rank_one_and_the_identity() -> None:
    """Signs times a deviation plus a mean, all patterns once: the second moments are exact."""
    patterns = torch.tensor([*itertools.product((-1.0, 1.0), repeat=4)], dtype=torch.float64)
    assert condition(0.3 * patterns + 0.5) == pytest.approx(1 + 4 * 0.5**2 / 0.3**2, rel=1e-12)


def test_the_descent_ends_at_its_goal_where_units_are_centered() -> None:
    patterns = torch.tensor([*itertools.product((-1.0, 1.0), repeat=2)], dtype=torch.float64)
    centered, shifted = descent(patterns), descent(patterns + 2)
    assert centered[-1] == pytest.approx([1, -1], abs=0.01)
    assert max(abs(shifted[-1][0] - 1), abs(shifted[-1][1] + 1)) > 10 * max(
        abs(centered[-1][0] - 1), abs(centered[-1][1] + 1)
    )


@pytest.mark.parametrize("norm", [0.5, 3.0, 50.0])
def test_a_logistic_unit_becomes_a_threshold_with_its_norm(norm: float) -> None:
    assert distance(norm) == pytest.approx((math.log(2) - math.log1p(math.exp(-norm))) / norm, rel=1e-3)
    assert distance(1e6) < 1e-4
