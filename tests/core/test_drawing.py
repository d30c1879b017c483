"""Drawing from a given generator leaves the global one alone and follows torch's own stream."""

import pytest
import torch
from torch.distributions import Categorical, Gamma, Independent, Normal

from deepcanon.core import draw, drawing_from


def test_draws_are_those_of_torch_at_the_same_state() -> None:
    for distribution in (Normal(torch.zeros(5), 2.0), Categorical(torch.ones(4)), Gamma(torch.ones(3), 1.0)):
        torch.manual_seed(7)
        expected = distribution.sample((6,))
        assert torch.equal(draw(distribution, torch.Generator().manual_seed(7), (6,)), expected)


def test_the_global_generator_stays_and_the_given_one_moves_on() -> None:
    generator = torch.Generator().manual_seed(3)
    normal = Independent(Normal(torch.zeros(4), 1.0), 1)
    before = torch.get_rng_state()
    first, second = draw(normal, generator), draw(normal, generator)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(first, second)


def test_the_global_generator_comes_back_after_an_error() -> None:
    def failing() -> None:
        with drawing_from(torch.Generator().manual_seed(1)):
            torch.rand(1)
            raise ZeroDivisionError

    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        failing()
    assert torch.equal(torch.get_rng_state(), before)
