"""Random numbers out of counters: those of SplitMix64, uniform, and without ties between their arguments."""

import numpy as np
import torch
from scipy import stats

from deepcanon.augment.counters import GOLDEN, mixed, uniforms


def test_the_numbers_are_those_of_splitmix64() -> None:
    """The first five of the seed 1234567, as published with the generator's reference code."""
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    states = np.uint64(1234567) + np.arange(5, dtype=np.uint64) * np.uint64(GOLDEN)
    assert mixed(states).tolist() == published


def test_they_are_uniform_and_independent_of_each_other() -> None:
    drawn = uniforms(torch.arange(20_000), 3, seed=5, epoch=2)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for column in drawn.T:
        assert stats.kstest(column, "uniform").pvalue > 0.01
    apart = np.eye(3, dtype=bool)
    assert np.abs(np.asarray(np.corrcoef(drawn.T)))[~apart].max() < 0.03  # 1 / sqrt(20,000) is 0.007


def test_seed_epoch_and_index_decide_together_and_no_two_do_the_same() -> None:
    index = torch.arange(50)
    drawn = np.concatenate([uniforms(index, 2, seed=s, epoch=e) for s in range(8) for e in range(8)])
    assert len(np.unique(drawn)) == drawn.size
    some = torch.tensor([31, 4])
    assert (uniforms(some, 2, seed=3, epoch=6) == uniforms(index, 2, seed=3, epoch=6)[some]).all()
