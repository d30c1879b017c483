"""From convolution to attention: every step equals its peer, and has the symmetries that it must have."""

import pytest
import torch

from deepcanon.studies.convolution_to_attention import by_distance, convolution_to_attention


@pytest.mark.parametrize(("length", "reach"), [(12, 2), (9, 1)])
def test_every_step_equals_its_peer(length: int, reach: int) -> None:
    found = convolution_to_attention(length=length, width=4, reach=reach, seed=length)
    steps = found.numbers["steps"]
    assert max(step["equality"] for step in steps.values()) < 1e-12
    by_place = {"tabulated", "continuous", "distance only"}
    for name, step in steps.items():
        assert step["shift"] < 1e-12, name
        assert (step["permutation"] < 1e-12) == (name not in by_place), name
        assert (step["contents"] < 1e-12) == (name in by_place), name
        assert step["reached"] == (2 * reach + 1 if name in by_place else length), name
    worst = max(step["equality"] for step in steps.values())
    assert f"{worst:.1g}" in found.says[0]


def test_weights_by_distance_are_a_band_of_the_table() -> None:
    found = by_distance(torch.tensor([1.0, 2.0, 3.0]), 4)
    assert found.tolist() == [[2, 3, 0, 0], [1, 2, 3, 0], [0, 1, 2, 3], [0, 0, 1, 2]]
