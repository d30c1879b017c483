"""Differences on the same examples: they are those of the scores, and the interval covers as often as it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap, norm, ttest_rel
from scipy.stats import t as student
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss

from deepcanon.comparison.differences import (
    FILE,
    MOST_GROUPS,
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


def test_the_interval_is_that_of_the_paired_bootstrap() -> None:
    """Against SciPy's, at the level to which percentiles are expanded; of many normal differences it is Student's."""
    a, b = (torch.from_numpy(each) for each in np.random.default_rng(0).exponential(size=(2, 25)))
    center, low, high = interval([(a, b)])
    assert center == pytest.approx(float((a - b).mean()))
    level = 2 * norm.cdf(np.sqrt(25 / 24) * student.ppf(0.975, 24)) - 1
    expected = bootstrap(
        (a.numpy(), b.numpy()), lambda x, y, axis: (x - y).mean(axis), paired=True, vectorized=True,
        confidence_level=level, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.04)
    c, d = (torch.from_numpy(each) for each in np.random.default_rng(1).normal(0.3, size=(2, 900)))
    _, low, high = interval([(c, d)])
    by_student = ttest_rel(c, d).confidence_interval(0.95)
    assert (low, high) == pytest.approx((by_student.low, by_student.high), abs=0.01)


@pytest.mark.slow
def test_the_interval_covers_as_often_as_it_says() -> None:
    """400 samples of 30 skewed differences: within three standard errors of 95 %, or what skewness costs, 3 %."""
    random = np.random.default_rng(3)
    covered = 0
    for gaps in random.exponential(size=(400, 30)) - 1:
        _, low, high = interval([(torch.from_numpy(gaps), torch.zeros(30))])
        covered += low <= 0 <= high
    assert 0.89 <= covered / 400 <= 0.98


def test_the_interval_of_squared_errors_is_one_of_rmse() -> None:
    a, b = (torch.from_numpy(each) ** 2 for each in np.random.default_rng(0).normal(size=(2, 400)) * [[2.0], [1.0]])
    center, low, high = interval([(a, b)], "squared_error")
    assert center == pytest.approx(float(a.mean().sqrt() - b.mean().sqrt()))
    expected = bootstrap(
        (a.numpy(), b.numpy()), lambda x, y, axis: np.sqrt(x.mean(axis)) - np.sqrt(y.mean(axis)), paired=True,
        vectorized=True, method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_many_examples_are_drawn_in_groups_with_the_same_spread() -> None:
    values = torch.from_numpy(np.random.default_rng(0).normal(size=3 * MOST_GROUPS + 1))
    center, low, high = interval([(values, torch.zeros_like(values))])
    half = 1.96 * float(values.std()) / len(values) ** 0.5
    assert center == pytest.approx(float(values.mean()))
    assert (center - low, high - center) == pytest.approx((half, half), rel=0.1)


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
    zero = torch.zeros(50)
    alike = interval([(torch.ones(50) + torch.linspace(-0.01, 0.01, 50), zero)])
    assert alike[2] - alike[1] < 0.01
    apart = interval([(torch.full((50,), value), zero) for value in (0.0, 1.0, 2.0)])
    assert apart[0] == 1.0
    assert apart[2] - apart[1] > 1.0
    assert interval([(torch.ones(1), torch.zeros(1))])[1:] == (-float("inf"), float("inf"))


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
