from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from tests.diagnosis.checks.plain import adam, causes, report


class Flow(nn.Module):
    """The log-likelihood of a flow of scalings and a shift; ``sign`` is that of its log-determinant."""

    def __init__(self, features: int, sign: float) -> None:
        super().__init__()
        self.log_scale, self.shift = nn.Parameter(torch.zeros(features)), nn.Parameter(torch.zeros(features))
        self.sign = sign

    def forward(self, x: Tensor) -> Tensor:
        z = x * self.log_scale.exp() + self.shift
        log_prob = -0.5 * (z.square() + math.log(2 * math.pi)).sum(1)
        return log_prob + self.sign * self.log_scale.sum()


def minus_mean(output: Tensor, _: Tensor) -> Tensor:
    return -output.mean()


@pytest.mark.parametrize("features", [1, 2])
def test_a_log_likelihood_with_the_wrong_sign_is_named(features: int) -> None:
    x = 0.5 + 0.7 * torch.randn(500, features, generator=torch.Generator().manual_seed(0))
    for sign, found in ((1.0, []), (-1.0, ["density not normalized: wrong log-determinant"])):
        flow = Flow(features, sign)
        assert causes("normalized_density", flow, x, loss=minus_mean, optimizer=adam(flow, 0.03), steps=150) == found


def test_numbers_that_are_no_log_likelihoods_are_left_alone() -> None:
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    energy = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    found = report("normalized_density", energy, x, loss=lambda output, _: output.square().mean())
    assert found.skipped["normalized_density"].startswith("it does not give a log-likelihood")
