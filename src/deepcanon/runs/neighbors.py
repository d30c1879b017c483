"""Neighbors by a run's model: words near words, and training examples near others in its latent space."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from deepcanon.core import AnyBatch, UsageError, eval_mode, given_batch
from deepcanon.core.display import Shown
from deepcanon.core.plural import counted
from deepcanon.core.roles import Encodes, HasNeighbors
from deepcanon.data.dataset import Batches
from deepcanon.nn.inner_product_search import ApproximateSearch, nearest_vectors
from deepcanon.runs.data import is_own, new_rows

if TYPE_CHECKING:
    from deepcanon.runs.run import Run

CHUNK = 1024


@dataclass(frozen=True)
class NearExamples(Shown):
    """For each of Q examples the n nearest training examples, nearest first, by the distance of their codes."""

    numbers: Tensor  # (Q, n): where they stand in the training split, from 0
    distances: Tensor  # (Q, n)
    labels: tuple[str, ...] | None
    """The class of every training example, by name, if they have classes."""

    def _facts(self) -> dict[str, Any]:
        examples, near = self.numbers.shape
        return {"examples": examples, "near": near, "labels": self.labels is not None}


def word_vectors(run: Run) -> HasNeighbors:
    """The model of a run, if it has word vectors."""
    if not isinstance(run.model, HasNeighbors):
        raise UsageError(f"{run.model.name()} has no word vectors, so no word has neighbors; word2vec has some")
    return run.model


def nearest_examples(
    run: Run, data: str | Path | None = None, n: int = 10, *, approximate: bool = False
) -> NearExamples:
    """The training examples nearest to each example of ``data``, by default of the run's own test split."""
    model = run.model
    if not isinstance(model, Encodes):
        raise UsageError(f"{model.name()} has no codes of examples (encode), so that none are near each other")
    name = None if data is None else str(data)
    others = run.data.split("test") if is_own(run.folder, name) else new_rows(run.folder, model, name, labeled=False)
    train = run.data.train
    if not 1 <= n <= len(train):
        raise UsageError(
            f"of {counted(len(train), 'training example')}, 1 to {len(train)} can be the nearest ones (got n={n})"
        )
    asked, codes = _codes(model, others), _codes(model, train)
    if approximate:
        distances, numbers = ApproximateSearch(codes, metric="euclidean")(asked, n)
    else:
        distances, numbers = nearest_vectors(asked, codes, n)
    names, y = run.data.labels, train.labels
    known = y is not None and not y.is_floating_point() and y.ndim == 1 and names
    return NearExamples(numbers, distances, tuple(names[i] for i in y.tolist()) if known and y is not None else None)


@torch.no_grad()
def _codes(model: Any, batch: AnyBatch) -> Tensor:
    """The codes of all examples, (N, width): of a distribution its mean."""
    found = []
    with eval_mode(model):
        for part in Batches(batch, CHUNK):
            code = given_batch(model, part).encode(part.x)
            code = code[-1] if isinstance(code, tuple) else code
            found.append((code.mean if isinstance(code, Distribution) else code).flatten(1))
    return torch.cat(found)
