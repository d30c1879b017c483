"""Baselines learn from the same labels: label spreading is scikit-learn's, and in clean clusters few are enough."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import deepcanon as dc
from deepcanon.core import SemiBatch
from deepcanon.data import Dataset, from_tensors
from deepcanon.data.transforms.few_labels import few_labels
from deepcanon.runs.label_baselines import MOST, Baseline, label_spreading, logistic_regression
from deepcanon.runs.method_baselines import picture


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
    labeled = from_tensors(data.train.x, data.train.y)
    assert len(picture(baselines, labeled).axes) == len(axes)  # without unlabeled examples, too
    if planar:
        assert [each.get_title(loc="left") for each in axes] == ["one: 50.0%", "two: 50.0%", "three: 50.0%"]
    else:
        assert [label.get_text() for label in axes[0].get_yticklabels()] == ["one", "two", "three"]


def test_the_logistic_regression_is_scikit_learns_on_the_labels_of_the_training() -> None:
    y = torch.arange(90) % 3
    x = torch.randn(90, 4, generator=torch.Generator().manual_seed(0)) + y.unsqueeze(1)
    data = from_tensors(x, y)
    rows, classes = data.train.x.double().numpy(), data.train.y.numpy()
    model = LogisticRegression(max_iter=1000).fit((rows - rows.mean(0)) / rows.std(0), classes)
    held = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    wanted = model.predict_proba((held.numpy() - rows.mean(0)) / rows.std(0))
    np.testing.assert_allclose(logistic_regression(data)(held), wanted, atol=1e-5)


def test_weak_supervision_is_shown_next_to_majority_votes_and_a_logistic_regression(tmp_path: Path) -> None:
    table = tmp_path / "votes.csv"
    random = np.random.RandomState(0)
    y = random.randint(0, 2, 120)
    votes = np.where(random.rand(120, 3) < 0.8, y[:, None], 1 - y[:, None])
    rows = [f"{2 * a + random.randn():.3f},{a},{','.join(map(str, v))}" for a, v in zip(y, votes, strict=True)]
    table.write_text("\n".join(["x,label,one,two,three", *rows]) + "\n")
    settings: dict[str, Any] = {"target": "label", "votes": ("one", "two", "three"), "steps": 4}
    run = dc.Run.train("weak_supervision", table, out=tmp_path / "run", quiet=True, pictures=False, **settings)
    wanted = ["trained on majority votes", "LogisticRegression (scikit-learn)", "weak_supervision"]
    assert list(run.info["baselines"]) == wanted
    assert run.info["baselines"]["weak_supervision"] == pytest.approx(run.info["results"]["test"]["accuracy"])
