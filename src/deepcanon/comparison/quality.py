"""How good samples are, judged against examples that the model has not seen.

References:
    | Revisiting Classifier Two-Sample Tests (Lopez-Paz and Oquab, 2017), https://arxiv.org/abs/1610.06545
    | Improved Precision and Recall Metric for Assessing Generative Models (Kynkäänniemi et al., 2019),
      https://arxiv.org/abs/1904.06991
    | Reliable Fidelity and Diversity Metrics for Generative Models (Naeem et al., 2020),
      https://arxiv.org/abs/2002.09797
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypedDict

import torch
from torch import Tensor

from deepcanon.core import DataError

NEIGHBORS = 5
MOST = 1000
"""How many held-out examples, and as many samples, are compared."""
FEWEST = 20
"""With fewer held-out examples the numbers would mean nothing."""
CHUNK = 4096
NEAR = 0.05


class Quality(TypedDict):
    """Shares between 0 and 1; see the functions below."""

    two_sample: float
    precision: float
    coverage: float
    copies: float | None


@dataclass(frozen=True)
class Yardstick:
    """Real examples to hold samples against, as rows: ``train`` and ``held_out``, with the distances among them."""

    train: Tensor
    held_out: Tensor
    radii: Tensor
    """How far each held-out example is from its fifth nearest other one."""
    novelty: Tensor
    """How far each held-out example is from the nearest training example."""

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
            raise DataError("its samples have values that are not finite, so they cannot be judged")
        distances = _distances(samples, self.held_out)  # (samples, held out)
        return {
            "two_sample": two_sample_accuracy(samples, self.held_out),
            "precision": precision(distances, self.radii),
            "coverage": coverage(distances, self.radii),
            "copies": copies(nearest(samples, self.train), self.novelty),
        }

    def judge_training_data(self) -> Quality:
        """What training examples score in place of samples: about the best that samples can reach."""
        return {**self.judge(_some(self.train, len(self.held_out))), "copies": None}


def two_sample_accuracy(samples: Tensor, held_out: Tensor) -> float:
    """How often a random forest tells a sample from a held-out example: 0.5 if it cannot, 1 if it always can.

    Each half is judged by a forest that has learned from the other half.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    count = min(len(samples), len(held_out))  # as many of each, else always giving the larger one would pay
    x = torch.cat([samples[:count], held_out[:count]]).numpy()
    y = torch.arange(2).repeat_interleave(count).numpy()
    forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=2, random_state=0)
    said = cross_val_predict(forest, x, y, cv=StratifiedKFold(2, shuffle=True, random_state=0))
    return float((said == y).mean())


def precision(distances: Tensor, radii: Tensor) -> float:
    """The share of samples that lie in the ball of some real example: what looks real.

    ``distances`` are those from samples (rows) to real examples (columns); a ball reaches to the example's fifth
    nearest neighbor among the real ones.

    >>> precision(torch.tensor([[0.5, 9.0], [9.0, 9.0]]), torch.tensor([1.0, 1.0]))
    0.5
    """
    return float((distances <= radii).any(1).double().mean())


def coverage(distances: Tensor, radii: Tensor) -> float:
    """The share of real examples in whose ball a sample lies: how much of the variety is there.

    >>> coverage(torch.tensor([[0.5, 9.0, 9.0, 9.0]]), torch.ones(4))
    0.25
    """
    return float((distances <= radii).any(0).double().mean())


def copies(distances: Tensor, novelty: Tensor) -> float:
    """The share of samples nearer to a training example than 95 % of the held-out examples are.

    A model that has learned and not memorized gives about 0.05; copies of training examples give 1.

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
    """In double precision, in which the fast way is exact for whole numbers: zeros and ones have many equal ones."""
    return torch.cdist(rows.double(), others.double())


def _rows(x: Tensor) -> Tensor:
    return x.detach().cpu().float().flatten(1)


def _some(rows: Tensor, count: int) -> Tensor:
    """At most ``count`` rows, always the same ones, drawn without order: data are often sorted by class."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    return rows[order[:count]]
