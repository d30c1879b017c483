import math

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, Independent, Normal

from deepcanon.core import Batch, Labeled
from deepcanon.core.toy import Toy
from deepcanon.laws import probe


def test_tensors_are_found_inside_every_output() -> None:
    mean, scale = torch.zeros(3, 2), torch.ones(3, 2)
    found = probe.tensors_of({"a": mean, "b": [scale, (Independent(Normal(mean, scale), 1),)]})
    assert [part.shape for part in found] == [(3, 2)] * 4
    assert len(probe.tensors_of(Bernoulli(torch.tensor([0.2])))) == 2  # probabilities and logits


def test_same_is_bit_equality_where_nan_equals_nan() -> None:
    assert probe.same(torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan]))
    assert not probe.same(torch.tensor([1.0]), torch.tensor([1.0 + 2e-7]))
    assert not probe.same(torch.zeros(2), torch.zeros(2, 1))


def test_distance_is_relative_and_shows_nan_and_other_shapes() -> None:
    assert probe.distance(torch.tensor([3.0]), torch.tensor([1.0])) == pytest.approx(1.0)
    assert math.isnan(probe.distance(torch.tensor([math.nan]), torch.tensor([1.0])))
    assert probe.distance(torch.zeros(1, 2), torch.zeros(2)) == math.inf


def test_doubled_turns_numbers_but_not_classes_into_doubles() -> None:
    module, batch = probe.doubled(nn.Linear(2, 3), Labeled(torch.ones(4, 2), torch.arange(4)))
    assert module.weight.dtype == batch.x.dtype == torch.float64
    assert batch.y.dtype == torch.int64
    assert not module.training


def test_repeated_and_first_select_examples() -> None:
    batch = Batch(torch.arange(3.0).unsqueeze(1))
    assert probe.repeated(batch, 2).x.flatten().tolist() == [0, 1, 2, 0, 1, 2]
    assert probe.first(batch, 2).x.flatten().tolist() == [0, 1]
    assert len(probe.first(batch, 9)) == 3


def test_maps_and_draws_are_the_methods_that_are_there() -> None:
    model, batch = Toy.example()
    assert list(probe.maps(model)) == ["log_prob"]
    assert list(probe.draws(model, batch)) == ["sample"]
    assert list(probe.maps(nn.Linear(2, 2))) == ["forward"]
