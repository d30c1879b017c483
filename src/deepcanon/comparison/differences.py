"""Differences of two models on the same test examples, with intervals: whether they can be told apart."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal

import safetensors.torch
import torch
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

Measure = Literal["log_loss", "accuracy", "balanced_accuracy", "squared_error", "log_likelihood"]


class Difference(TypedDict):
    """The mean of ``first`` minus that of ``second`` over the test examples, and the interval of it."""

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


def differences(form: str, runs: Mapping[str, Mapping[int, Path]]) -> list[Difference]:
    """All differences of models on one form of the data; ``runs`` are the folders by label and seed."""
    read = {
        label: {seed: _examples(folder / FILE) for seed, folder in folders.items()} for label, folders in runs.items()
    }
    found = []
    for first, second in combinations(read, 2):
        seeds = [seed for seed in read[first] if seed in read[second]]
        pairs = [(read[first][seed], read[second][seed]) for seed in seeds]
        names = set.intersection(*({*a} & {*b} for a, b in pairs)) if pairs else set()
        for measure in Measure.__args__:  # type: ignore[attr-defined]
            if measure in names:
                if len({tuple(each[measure].shape) for pair in pairs for each in pair}) > 1:
                    raise CheckpointError(
                        f"{FILE} of {first} and {second} are not of the same test examples: delete both, compare again"
                    )
                gaps = [(a[measure] - b[measure]).double() for a, b in pairs]
                found.append(_difference(first, second, form, measure, gaps))
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


def _difference(first: str, second: str, form: str, measure: Measure, gaps: Sequence[Tensor]) -> Difference:
    center, half = interval(torch.stack(list(gaps)))
    return {
        "first": first, "second": second, "form": form, "measure": measure,
        "difference": center, "low": center - half, "high": center + half, "examples": len(gaps[0]),
    }  # fmt: skip


def interval(gaps: Tensor) -> tuple[float, float]:
    r"""The mean of paired differences, (seeds, examples), and half of its confidence interval.

    The variance of the mean is that over the examples, each with its mean over the seeds, and with several seeds that
    over the seeds as well. The interval is Student's for so many examples.

    >>> center, half = interval(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    >>> center, half > 0.25
    (0.25, True)
    """
    seeds, examples = gaps.shape
    if examples < 2:
        return float(gaps.mean()), math.inf
    variance = float(gaps.mean(0).var()) / examples
    if seeds > 1:
        variance += float(gaps.mean(1).var()) / seeds
    quantile = float(student.ppf((1 + LEVEL) / 2, examples - 1))
    return float(gaps.mean()), quantile * math.sqrt(variance)
