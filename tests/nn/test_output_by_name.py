"""Output layers by name take the options of their constructors, and no others."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from deepcanon.core import UsageError
from deepcanon.nn import HierarchicalSoftmax, NoiseContrastive, output_layer
from deepcanon.nn.output_by_name import OUTPUT_LAYERS


def test_options_reach_the_layer() -> None:
    layer = output_layer("nce:samples=7,negatives=3", 4, 9)
    assert isinstance(layer, NoiseContrastive)
    assert (layer.samples, layer.negatives) == (7, 3)
    tree = output_layer("hierarchical:tree=balanced", 4, 9)
    assert isinstance(tree, HierarchicalSoftmax)
    assert tree.tree == "balanced"


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean hierarchical"):
        output_layer("hierarchic", 4, 9)
    with pytest.raises(UsageError, match="the output layer softmax has no option 'samples'; it has none"):
        output_layer("softmax:samples=4", 4, 9)


@pytest.mark.parametrize("name", OUTPUT_LAYERS)
def test_all_keep_the_shape_of_the_classes(name: str) -> None:
    layer = output_layer(name, 4, 9)
    h, y = torch.randn(2, 3, 4), torch.randint(9, (2, 3))
    assert layer.loss(h, y).shape == layer.nats(h, y).shape == (2, 3)
    assert layer(h).shape == (2, 3, 9)


def test_the_full_softmax_is_the_cross_entropy() -> None:
    layer, h, y = output_layer("softmax", 4, 9), torch.randn(5, 4), torch.randint(9, (5,))
    torch.testing.assert_close(layer.loss(h, y).mean(), cross_entropy(layer.log_probs(h), y))
