"""The mu-law: its formula, its inverse, and the steps that it has."""

import math

import pytest
import torch

from deepcanon.core import DataError
from deepcanon.data.mu_law import from_mu_law, to_mu_law


@pytest.mark.parametrize("levels", [2, 64, 256])
def test_it_is_the_formula_and_back_again(levels: int) -> None:
    tokens = torch.arange(levels)
    assert torch.equal(to_mu_law(from_mu_law(tokens, levels), levels), tokens)
    mu = levels - 1
    for x in (-1.0, -0.3, -0.001, 0.0, 0.02, 0.5, 1.0):
        bent = math.copysign(math.log(1 + mu * abs(x)) / math.log(1 + mu), x)
        assert int(to_mu_law(torch.tensor(x, dtype=torch.float64), levels)) == math.floor((bent + 1) / 2 * mu + 0.5)


def test_quiet_waves_have_finer_steps() -> None:
    values = from_mu_law(torch.arange(256))
    steps = values.diff()
    assert bool((steps > 0).all())
    assert float(steps[-1] / steps[127]) > 100
    with pytest.raises(DataError, match="from -1 to 1"):
        to_mu_law(torch.tensor([1.5]))
