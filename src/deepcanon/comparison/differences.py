"""Differences of two models on the same test examples, with intervals: whether they can be told apart."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import safetensors.torch
import torch
from scipy.stats import norm as normal
from scipy.stats import t as student
from torch import Tensor
from typing_extensions import TypedDict

from deepcanon.core import CheckpointError
from deepcanon.core.files import write_whole
from deepcanon.runs.stored_tensors import load_tensors
from deepcanon.train.scores import Predicted

FILE = "test-examples.safetensors"
CHECKSUM = "sha256"
"""The name of the checksum among the tensors of the file."""
LEVEL = 0.95
"""The coverage of the intervals."""

RESAMPLES = 2000
"""The number of bootstrap samples."""
MOST_GROUPS = 4000
"""More examples than these are drawn in so many groups."""

Measure = Literal["log_loss", "accuracy", "balanced_accuracy", "squared_error", "log_likelihood", "crps", "cost"]


class Difference(TypedDict):
    """The measure of ``first`` minus that of ``second`` on the test examples, and the interval of it.

    A measure is the mean over the examples, that of squared errors its root (RMSE).
    """

    first: str
    second: str
    form: str
    measure: Measure
    difference: float
    low: float
    high: float
    examples: int


def told_apart(found: Difference) -> bool:
    """Whether the interval leaves no doubt which of the two is higher."""
    return found["low"] > 0 or found["high"] < 0


def turned(found: Difference) -> Difference:
    """The same difference the other way round."""
    return {
        "first": found["second"], "second": found["first"], "form": found["form"], "measure": found["measure"],
        "difference": -found["difference"], "low": -found["high"], "high": -found["low"], "examples": found["examples"],
    }  # fmt: skip


def contributions(predicted: Predicted, unit: float = 1.0) -> dict[str, Tensor]:
    """What each test example contributes to the measures, which are means of these.

    A right answer counts for the balanced accuracy by how few examples its class has. Squared errors are those of all
    targets of an example, in units of the data.
    """
    mean, true = predicted.mean, predicted.true
    if not predicted.is_classes:
        return {"squared_error": (mean - true).square().sum(1) * unit**2}
    right = (mean.argmax(1) == true).double()
    counts = torch.bincount(true, minlength=mean.shape[1])
    share = len(true) / (int((counts > 0).sum()) * counts[true].double())
    probability = mean.gather(1, true.unsqueeze(1)).squeeze(1).clamp_min(torch.finfo(torch.float32).tiny)
    return {"log_loss": -probability.log(), "accuracy": right, "balanced_accuracy": right * share}


def write_examples(folder: Path, found: Mapping[str, Tensor]) -> None:
    """Keep what the examples contribute next to the run they belong to."""
    kept = {name: part.float().clone() for name, part in found.items()}
    write_whole(folder / FILE, safetensors.torch.save({**kept, CHECKSUM: _checksum(kept)}))


def differences(
    form: str, runs: Mapping[str, Mapping[int, Path]], measures: Sequence[Measure] = get_args(Measure)
) -> list[Difference]:
    """All differences of models on one form of the data; ``runs`` are the folders by label and seed."""
    read = {
        label: {seed: _examples(folder / FILE) for seed, folder in folders.items()} for label, folders in runs.items()
    }
    found = []
    for measure in measures:
        values = {
            label: {seed: parts[measure].double() for seed, parts in seeds.items() if measure in parts}
            for label, seeds in read.items()
        }
        resampled: _Resampled | None = None
        for first, second in combinations([label for label, seeds in values.items() if seeds], 2):
            seeds = [seed for seed in values[first] if seed in values[second]]
            if not seeds:
                continue
            pairs = [(values[first][seed], values[second][seed]) for seed in seeds]
            if len({part.shape for pair in pairs for part in pair}) > 1:
                raise CheckpointError(
                    f"{FILE} of {first} and {second} are not of the same test examples: delete both, compare again"
                )
            resampled = resampled or _Resampled(len(pairs[0][0]))
            center, low, high = interval(pairs, measure, resampled)
            found.append(
                Difference(
                    first=first, second=second, form=form, measure=measure, difference=center, low=low, high=high,
                    examples=len(pairs[0][0]),
                )
            )  # fmt: skip
    return found


def _examples(path: Path) -> dict[str, Tensor]:
    """What the examples contribute, as it was written."""
    found = load_tensors(path.read_bytes(), path)
    checksum = found.pop(CHECKSUM, None)
    if checksum is None or not torch.equal(checksum, _checksum(found)):
        raise CheckpointError(f"{path} is damaged: it does not match its checksum; delete it and compare again")
    return found


def _checksum(tensors: Mapping[str, Tensor]) -> Tensor:
    """The SHA-256 of tensors with their names, (32,)."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


class _Resampled:
    """The means over bootstrap samples of the test examples, the same samples for all: differences stay paired.

    Many examples are drawn in groups, which are as independent as they are.
    """

    def __init__(self, examples: int) -> None:
        random, groups = np.random.default_rng(0), min(examples, MOST_GROUPS)
        drawn = random.integers(groups, size=(RESAMPLES, groups)) + groups * np.arange(RESAMPLES)[:, None]
        counts = np.bincount(drawn.reshape(-1), minlength=RESAMPLES * groups).reshape(RESAMPLES, groups)
        self.groups = torch.arange(examples) % groups
        self.samples = torch.from_numpy(counts).double()
        self.weights = self.samples @ torch.bincount(self.groups).double()
        self.means: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, values: Tensor) -> Tensor:
        """The mean of the values, (N,), in each of the samples, (RESAMPLES,)."""
        if id(values) not in self.means:
            sums = torch.zeros(self.samples.shape[1], dtype=torch.float64).index_add_(0, self.groups, values.double())
            self.means[id(values)] = (values, self.samples @ sums / self.weights)  # values are kept, and so their id
        return self.means[id(values)][1]


def interval(
    pairs: Sequence[tuple[Tensor, Tensor]], measure: Measure = "log_loss", resampled: _Resampled | None = None
) -> tuple[float, float, float]:
    r"""The difference of two models and its interval by the paired bootstrap; ``pairs`` are of a seed each.

    Test examples are drawn with replacement, the same for both models, and the difference is measured anew. With
    several seeds it is their mean, and the seeds are drawn as well, their deviations from it widened by
    :math:`\sqrt{S / (S - 1)}`. The percentiles are those of the expanded percentile interval, which is Student's where
    differences are normal, and wider than the plain one for few examples.

    References:
        | What Teachers Should Know About the Bootstrap (Hesterberg, 2015), https://arxiv.org/abs/1411.5279

    >>> center, low, high = interval([(torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.zeros(4))])
    >>> center, low <= 0 < high
    (0.25, True)
    """
    examples, seeds = len(pairs[0][0]), len(pairs)
    means = [
        _score(first.double().mean(), measure) - _score(second.double().mean(), measure) for first, second in pairs
    ]
    every = torch.stack(means)
    center = float(every.mean())
    if examples < 2:
        return center, -math.inf, math.inf
    resampled = resampled or _Resampled(examples)
    drawn = torch.stack(
        [_score(resampled.of(first), measure) - _score(resampled.of(second), measure) for first, second in pairs]
    ).mean(0)
    if seeds > 1:
        chosen = np.random.default_rng(1).integers(seeds, size=(RESAMPLES, seeds))
        drawn = drawn + ((every - center) * math.sqrt(seeds / (seeds - 1)))[torch.from_numpy(chosen)].mean(1)
    tail = float(normal.cdf(math.sqrt(examples / (examples - 1)) * student.ppf((1 - LEVEL) / 2, examples - 1)))
    low, high = (float(drawn.quantile(share)) for share in (tail, 1 - tail))
    return center, low, high


def _score(mean: Tensor, measure: Measure) -> Tensor:
    """What is compared: the mean of what the examples contribute, of squared errors its root."""
    return mean.sqrt() if measure == "squared_error" else mean
