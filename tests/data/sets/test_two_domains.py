"""The two domains are related by a known mapping, and nothing else of the shape maps it to itself."""

import math

import pytest
import torch

from deepcanon.core import ImagePairs, TwoDomains
from deepcanon.data import load_data
from deepcanon.data.sets.two_domains import SCALE, SHIFT, counterpart
from deepcanon.losses.energy_distance import energy_distance


def test_training_examples_are_unpaired_and_held_out_ones_are_pairs() -> None:
    data = load_data("two-domains")
    assert type(data.train) is TwoDomains
    assert (len(data.train.x), len(data.train.y)) == (4000, 3000)
    nearest = torch.cdist(counterpart(data.train.x[:500]), data.train.y, compute_mode="donot_use_mm_for_euclid_dist")
    assert nearest.min() > 0
    for split in (data.valid, data.test):
        assert isinstance(split, ImagePairs)
        torch.testing.assert_close(split.y, counterpart(split.x))


def test_the_mapping_turns_by_sixty_degrees_scales_and_shifts() -> None:
    origin, axis = counterpart(torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64))
    assert origin.tolist() == list(SHIFT)
    assert (axis - origin).norm().item() == pytest.approx(SCALE)
    assert math.atan2(*(axis - origin).flip(0).tolist()) == pytest.approx(math.pi / 3)


def test_the_domains_have_the_same_shape_and_no_turn_or_reflection_maps_it_to_itself() -> None:
    data = load_data("two-domains")
    x, y = data.train.x[:800].double(), data.train.y[:800].double()
    same = energy_distance(counterpart(x), y).item()
    assert abs(same) < 0.02
    center = y.mean(0)
    for angle in range(30, 360, 30):
        turn = math.radians(angle)
        matrix = torch.tensor([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]).double()
        for mirror in (1.0, -1.0):
            other = (y - center) @ (matrix * torch.tensor([1.0, mirror])) + center
            assert energy_distance(other, y).item() > 0.03
