"""Random numbers out of counters: those of SplitMix64, uniform, and without ties between their arguments."""

import torch
from scipy import stats

from deepcanon.nn.counters import GOLDEN, mixed, uniforms


def test_the_numbers_are_those_of_splitmix64() -> None:
    """The first five of the seed 1234567, as published with the generator's reference code."""
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    state = torch.tensor([1234567])
    for number in published:
        assert int(mixed(state)) % 2**64 == number
        state = state + GOLDEN


def test_they_are_uniform_and_independent_of_each_other() -> None:
    drawn = uniforms(torch.arange(20_000), 3, seed=5, epoch=2)
    assert drawn.dtype == torch.float64
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for column in drawn.unbind(1):
        assert stats.kstest(column.numpy(), "uniform").pvalue > 0.01
    apart = torch.eye(3, dtype=torch.bool)
    assert drawn.T.corrcoef()[~apart].abs().max() < 0.03  # 1 / sqrt(20,000) is 0.007


def test_seed_epoch_and_index_decide_together_and_no_two_do_the_same() -> None:
    index = torch.arange(50)
    drawn = torch.cat([uniforms(index, 2, seed=s, epoch=e) for s in range(8) for e in range(8)])
    assert len(drawn.flatten().unique()) == drawn.numel()
    some = torch.tensor([31, 4])
    assert torch.equal(uniforms(some, 2, seed=3, epoch=6), uniforms(index, 2, seed=3, epoch=6)[some])
