"""Differences on the same examples: they are those of the scores, and the interval covers as often as it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss

from deepcanon.comparison.differences import (
    FILE,
    contributions,
    differences,
    interval,
    told_apart,
    turned,
    write_examples,
)
from deepcanon.core import CheckpointError
from deepcanon.train.scores import Predicted


def some(seed: int, count: int = 60) -> Predicted:
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(count, 3, generator=generator, dtype=torch.float64)
    true = torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), count, replacement=True, generator=generator)
    return Predicted(shares / shares.sum(1, keepdim=True), true)


def test_the_measures_are_the_means_of_what_the_examples_contribute() -> None:
    predicted = some(0)
    mode = predicted.mean.argmax(1)
    means = {name: float(part.mean()) for name, part in contributions(predicted).items()}
    assert means == pytest.approx(
        {
            "log_loss": log_loss(predicted.true, predicted.mean),
            "accuracy": accuracy_score(predicted.true, mode),
            "balanced_accuracy": balanced_accuracy_score(predicted.true, mode),
        }
    )
    errors = contributions(Predicted(torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [4.0]])), unit=10.0)
    assert errors["squared_error"].tolist() == [100.0, 400.0]


def test_the_interval_is_that_of_the_paired_t_test() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 29)) + np.array([[0.3], [0.0]])
    center, half = interval(torch.from_numpy(a - b)[None])
    expected = ttest_rel(a, b).confidence_interval(0.95)
    assert (center - half, center + half) == pytest.approx((expected.low, expected.high))


def test_pairing_tells_apart_what_single_intervals_would_not(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Examples differ far more than the two models do; a model is the same as itself."""
    hard = torch.from_numpy(np.random.default_rng(1).exponential(size=400))
    folders = {name: {0: tmp_path_factory.mktemp(name)} for name in ("a", "b", "c")}
    noise = torch.from_numpy(np.random.default_rng(2).normal(size=(2, 400))) * 0.01
    losses = {"a": hard, "b": hard + 0.02 + noise[0], "c": hard + noise[1]}
    for name, loss in losses.items():
        write_examples(folders[name][0], {"log_loss": loss})
    ab, ac, bc = differences("plain", folders)
    assert [told_apart(each) for each in (ab, ac, bc)] == [True, False, True]
    assert ab["difference"] == pytest.approx(-0.02, abs=0.002)
    assert told_apart(turned(ab))
    assert turned(ab)["low"] == -ab["high"]
    assert float(hard.std()) / 20 * 2 > 0.02


def test_seeds_that_disagree_widen_the_interval() -> None:
    gaps = torch.ones(3, 50) + torch.tensor([[-1.0], [0.0], [1.0]])
    assert interval(gaps[1:2] + torch.linspace(-0.01, 0.01, 50))[1] < 0.01
    assert interval(gaps)[1] > 0.5
    assert interval(torch.ones(1, 1))[1] == float("inf")


def test_what_the_examples_contribute_is_read_as_every_file_is(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("one", "two")}
    for count, folder in enumerate(folders.values(), 5):
        folder.mkdir()
        write_examples(folder, {"log_loss": torch.rand(count)})
    runs = {name: {0: folder} for name, folder in folders.items()}
    with pytest.raises(CheckpointError, match="not of the same test examples"):
        differences("plain", runs)
    whole = (folders["two"] / FILE).read_bytes()
    for place in (len(whole) - 3, len(whole) // 2, 40):  # a tensor, and the header
        flipped = bytearray(whole)
        flipped[place] ^= 1
        (folders["two"] / FILE).write_bytes(flipped)
        with pytest.raises(CheckpointError, match=r"two/test-examples\.safetensors is"):
            differences("plain", runs)
    (folders["two"] / FILE).write_bytes(b"cut off")
    with pytest.raises(CheckpointError, match=r"two/test-examples\.safetensors is not a safetensors file"):
        differences("plain", runs)
