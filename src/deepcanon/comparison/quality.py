"""Measures of sample quality, against held-out examples.

References:
    | Revisiting Classifier Two-Sample Tests (Lopez-Paz and Oquab, 2017), https://arxiv.org/abs/1610.06545
    | Improved Precision and Recall Metric for Assessing Generative Models (Kynkäänniemi et al., 2019),
      https://arxiv.org/abs/1904.06991
    | Reliable Fidelity and Diversity Metrics for Generative Models (Naeem et al., 2020),
      https://arxiv.org/abs/2002.09797
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from typing_extensions import TypedDict

from deepcanon.core import DataError

NEIGHBORS = 5
MOST = 1000
"""The largest number of held-out examples, and of samples, that are compared."""
FEWEST = 20
"""The least number of held-out examples; with fewer the measures would have no meaning."""
CHUNK = 4096
NEAR = 0.05
TREES = 100
"""The trees of the forest that tells samples from held-out examples."""


class Quality(TypedDict):
    """The measures of sample quality, between 0 and 1; see the functions below."""

    two_sample: float
    precision: float
    coverage: float
    copies: float | None


@dataclass(frozen=True)
class Yardstick:
    """Real examples to compare samples with, as rows: ``train`` and ``held_out``, with the distances among them."""

    train: Tensor
    held_out: Tensor
    radii: Tensor
    """The distance of each held-out example to its fifth nearest neighbor among them."""
    novelty: Tensor
    """The distance of each held-out example to the nearest training example."""

    @classmethod
    def of(cls, train: Tensor, held_out: Tensor) -> Self | None:
        """The yardstick that these examples make; None where they are too few."""
        if len(held_out) < FEWEST:
            return None
        train, held_out = _rows(train), _some(_rows(held_out), MOST)
        among = _distances(held_out, held_out).fill_diagonal_(torch.inf)
        radii = among.kthvalue(NEIGHBORS, dim=1).values
        return cls(train, held_out, radii, nearest(held_out, train))

    def judge(self, samples: Tensor) -> Quality:
        """All measures of these samples, which should be as many as the held-out examples."""
        samples = _rows(samples)
        if not samples.isfinite().all():
            raise DataError("its samples have values that are not finite, so they cannot be compared with data")
        distances = _distances(samples, self.held_out)  # (samples, held out)
        return {
            "two_sample": two_sample_accuracy(samples, self.held_out),
            "precision": precision(distances, self.radii),
            "coverage": coverage(distances, self.radii),
            "copies": copies(nearest(samples, self.train), self.novelty),
        }

    def judge_training_data(self) -> Quality:
        """The measures of training examples in place of samples: about the best that samples can reach."""
        return {**self.judge(_some(self.train, len(self.held_out))), "copies": None}


def two_sample_accuracy(samples: Tensor, held_out: Tensor) -> float:
    """The classifier two-sample test: the accuracy of a random forest on samples against held-out examples.

    It is 0.5 if the forest cannot distinguish them, 1 if it always can; by two-fold cross-validation.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    count = min(len(samples), len(held_out))  # as many of each, else always predicting the larger one would pay
    x = torch.cat([samples[:count], held_out[:count]]).numpy()
    y = torch.arange(2).repeat_interleave(count).numpy()
    forest = RandomForestClassifier(n_estimators=TREES, min_samples_leaf=2, random_state=0)
    predicted = cross_val_predict(forest, x, y, cv=StratifiedKFold(2, shuffle=True, random_state=0))
    return float((predicted == y).mean())


def precision(distances: Tensor, radii: Tensor) -> float:
    """The precision (fidelity): the share of samples that lie in the ball of some real example.

    ``distances`` are those from samples (rows) to real examples (columns); a ball reaches to the example's fifth
    nearest neighbor among the real ones.

    >>> precision(torch.tensor([[0.5, 9.0], [9.0, 9.0]]), torch.tensor([1.0, 1.0]))
    0.5
    """
    return float((distances <= radii).any(1).double().mean())


def coverage(distances: Tensor, radii: Tensor) -> float:
    """The coverage (diversity): the share of real examples whose ball holds a sample.

    >>> coverage(torch.tensor([[0.5, 9.0, 9.0, 9.0]]), torch.ones(4))
    0.25
    """
    return float((distances <= radii).any(0).double().mean())


def copies(distances: Tensor, novelty: Tensor) -> float:
    """The share of near-copies: samples nearer to a training example than 95 % of the held-out examples are.

    A model that has not memorized its training data gives about 0.05; copies of training examples give 1.

    >>> copies(torch.tensor([0.0, 0.0, 5.0, 5.0]), torch.linspace(1, 9, 100))
    0.5
    """
    return float((distances < novelty.quantile(NEAR)).double().mean())


def nearest(rows: Tensor, others: Tensor) -> Tensor:
    """The distance of each row to the nearest of the others.

    >>> nearest(torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0], [6.0]]))
    tensor([1., 2.], dtype=torch.float64)
    """
    found = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    for part in others.split(CHUNK):
        found = torch.minimum(found, _distances(rows, part).min(1).values)
    return found


def _distances(rows: Tensor, others: Tensor) -> Tensor:
    """Distances in double precision, exact for whole numbers also by the fast way: binary data have many equal ones."""
    return torch.cdist(rows.double(), others.double())


def _rows(x: Tensor) -> Tensor:
    return x.detach().cpu().float().flatten(1)


def _some(rows: Tensor, count: int) -> Tensor:
    """At most ``count`` rows, always the same ones, drawn at random: data are often sorted by class."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    return rows[order[:count]]
