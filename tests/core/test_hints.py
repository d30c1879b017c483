"""Advice names the nearest name, or all of them but never hundreds."""

from deepcanon.core.hints import did_you_mean, listed


def test_the_nearest_name_is_offered() -> None:
    assert did_you_mean("eigth-gausians", ["moons", "eight-gaussians"]) == "did you mean eight-gaussians?"


def test_long_lists_are_cut() -> None:
    assert listed(map(str, range(15))) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more"
    assert listed(["a", ""]) == "a, (missing)"
