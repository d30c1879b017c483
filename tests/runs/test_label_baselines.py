"""Baselines learn from the same labels: label spreading is scikit-learn's, and in clean clusters few are enough."""

import pytest
import torch

from deepcanon.core import SemiBatch
from deepcanon.data import Dataset, from_tensors
from deepcanon.data.transforms.few_labels import few_labels
from deepcanon.runs.label_baselines import MOST, Baseline, label_spreading, picture


def clusters(count: int = 90) -> Dataset[SemiBatch]:
    """Three clouds far from each other."""
    y = torch.arange(count) % 3
    x = torch.randn(count, 2, generator=torch.Generator().manual_seed(0)) + 20 * torch.stack([y, -y], 1)
    return few_labels(from_tensors(x, y), "labels=6")


def test_labels_spread_through_their_clusters() -> None:
    data = clusters()
    predict = label_spreading(data)
    shares = predict(data.split("valid").x)
    torch.testing.assert_close(shares.sum(1), torch.ones(len(shares)))
    assert torch.equal(shares.argmax(1), data.split("valid").y)


def test_a_large_set_is_thinned_out_evenly() -> None:
    data = clusters(count=2 * MOST + 600)
    assert torch.equal(label_spreading(data)(data.split("valid").x).argmax(1), data.split("valid").y)


@pytest.mark.parametrize("planar", [True, False])
def test_the_picture_has_every_baseline(planar: bool) -> None:
    data = clusters()
    if not planar:
        x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
        data = few_labels(from_tensors(x, torch.arange(60) % 3), "labels=6")
    baselines = [Baseline(name, lambda x: x.new_full((len(x), 3), 1 / 3), 0.5) for name in ("one", "two", "three")]
    axes = picture(baselines, data).axes
    if planar:
        assert [each.get_title(loc="left") for each in axes] == ["one: 50.0%", "two: 50.0%", "three: 50.0%"]
    else:
        assert [label.get_text() for label in axes[0].get_yticklabels()] == ["one", "two", "three"]
