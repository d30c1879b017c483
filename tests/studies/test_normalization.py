"""The invariances of normalizations: measured, they are those of the printed table."""

import pytest

from deepcanon.studies.normalization import CHANGES, normalization

INVARIANT = {
    "none": (False, False, False, False, False, False),
    "batch": (True, False, True, True, True, False),
    "weight": (True, False, True, False, False, False),
    "layer": (True, True, False, True, False, True),
}
"""Table 1 of Layer normalization (Ba et al., 2016), https://arxiv.org/abs/1607.06450."""


@pytest.mark.parametrize("seed", [0, 1])
def test_the_table_of_invariances_holds(seed: int) -> None:
    found = normalization(inputs=4, units=6, examples=8, seed=seed)
    for norm, row in INVARIANT.items():
        for change, invariant in zip(CHANGES, row, strict=True):
            moved = found.numbers["relative_change"][norm][change]
            assert moved < 1e-10 if invariant else moved > 0.1, (norm, change)
            assert (change in found.numbers["invariant"][norm]) == invariant
    assert found.says[2] == "Weight norm is invariant to weight matrix re-scaling, weight vector re-scaling."
