"""Baselines that use no input: the class prior, the mean, the unigram distribution, independent marginals.

They are fitted on the training split. A model that does not beat its baseline has learned nothing that is of use.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Batch, Captioned, Graphs, Model, SequencePairs, Sequences, Videos
from deepcanon.core.padding import valid_positions
from deepcanon.core.roles import Predicts
from deepcanon.data.dataset import Batches
from deepcanon.train.scores import Predicted

FEW = 2048
"""Of examples that lie in files, so many are read to fit their marginals."""


class Baseline(ABC):
    """A prediction, or a distribution, that is the same for every example."""

    name: ClassVar[str]

    @abstractmethod
    def scores(self, split: AnyBatch) -> dict[str, float]:
        """What it reaches on a split, by the names of a model's metrics."""


class ClassPrior(Baseline):
    """The shares of the classes in the training split; its prediction is the majority class."""

    name = "the class prior"

    def __init__(self, labels: Tensor, classes: int) -> None:
        counts = torch.bincount(labels.cpu(), minlength=classes).double()
        self.shares = counts / counts.sum()

    def scores(self, split: AnyBatch) -> dict[str, float]:
        """What the class prior reaches on a split.

        >>> from deepcanon.core import Labeled
        >>> prior = ClassPrior(torch.tensor([0, 0, 0, 1]), 2)
        >>> prior.scores(Labeled(torch.zeros(2, 1), torch.tensor([0, 1])))["accuracy"]
        0.5
        """
        true = _labels(split).cpu()
        nll = -self.shares[true].log().mean()  # infinite for a class that the training split lacks
        accuracy = (true == self.shares.argmax()).double().mean()
        same = Predicted(self.shares.expand(len(true), -1), true)
        return {"accuracy": float(accuracy), "nll": float(nll), **same.scores()}


class MeanTarget(Baseline):
    """The mean of the training targets."""

    name = "the mean of the training targets"

    def __init__(self, targets: Tensor) -> None:
        self.mean = targets.double().mean(0).cpu()

    def scores(self, split: AnyBatch) -> dict[str, float]:
        true = _labels(split).double().cpu()
        error = true - self.mean
        errors = {"mse": error.square().sum(-1).mean(), "mae": error.abs().sum(-1).mean()}
        same = Predicted(self.mean.expand(len(true), -1), true)
        return {**{name: float(value) for name, value in errors.items()}, **same.scores()}


class Unigram(Baseline):
    """The shares of the tokens in the training split, each counted once more than it occurs (Laplace's rule)."""

    name = "the unigram distribution"

    def __init__(self, tokens: Tensor, vocab: int) -> None:
        counts = torch.bincount(tokens.cpu(), minlength=vocab).double() + 1
        self.log_shares = (counts / counts.sum()).log()

    def scores(self, split: AnyBatch) -> dict[str, float]:
        tokens = _predicted_tokens(split)
        assert tokens is not None
        return {"nll": float(-self.log_shares[tokens.cpu()].mean())}


class Marginals(Baseline):
    """Independent features: a Gaussian of each real one, of each discrete one its histogram by Laplace's rule."""

    name = "independent features"

    def __init__(self, x: Tensor, discrete: bool) -> None:
        rows = x.double().flatten(1).cpu()
        self.discrete = discrete
        if discrete:
            self.values, place = torch.unique(rows, return_inverse=True)
            counts = torch.ones(len(self.values), rows.shape[1], dtype=torch.float64)
            counts.scatter_add_(0, place, torch.ones_like(rows))
            self.log_shares = (counts / counts.sum(0)).log()
        else:
            self.mean, self.std = rows.mean(0), rows.std(0, correction=0)

    def scores(self, split: AnyBatch) -> dict[str, float]:
        """The negative log-likelihood of a split, the mean over its examples; of videos over their frames."""
        if isinstance(split, Videos):
            split = Batch(split.frames)
        total = sum(float(self._log_p(part.x.double().flatten(1).cpu()).sum()) for part in Batches(split, 1024))
        return {"nll": -total / max(1, len(split))}

    def _log_p(self, rows: Tensor) -> Tensor:
        if not self.discrete:
            standard = (rows - self.mean) / self.std
            return -0.5 * standard.square() - self.std.log() - 0.5 * math.log(2 * math.pi)
        place = torch.searchsorted(self.values, rows).clamp_max(len(self.values) - 1)
        return self.log_shares.gather(0, place).masked_fill(self.values[place] != rows, -math.inf)


class EqualEdges(Baseline):
    """The numbers of nodes of the training graphs, by Laplace's rule, and edges that are all equally probable.

    The random graph of Erdos and Renyi, with as many edges as the training graphs have on average.
    """

    name = "edges at random"

    def __init__(self, graphs: Graphs) -> None:
        sizes, edges = self._counts(graphs)
        self.sizes = 1 + sizes.bincount(minlength=int(sizes.max()) + 2).double()  # the last stands for all larger ones
        pairs = (sizes * (sizes - 1)).sum() / 2
        self.share = ((edges.sum() + 1) / (pairs + 2)).double()

    def scores(self, split: AnyBatch) -> dict[str, float]:
        assert isinstance(split, Graphs)
        sizes, edges = self._counts(split)
        pairs = sizes * (sizes - 1) / 2
        of_size = (self.sizes / self.sizes.sum()).log()[sizes.clamp_max(len(self.sizes) - 1)]
        log_prob = of_size + edges * self.share.log() + (pairs - edges) * torch.log1p(-self.share)
        return {"nll": -float(log_prob.mean())}

    @staticmethod
    def _counts(graphs: Graphs) -> tuple[Tensor, Tensor]:
        """The number of nodes and of undirected edges of each graph."""
        sizes = torch.tensor(graphs.graph.parts or (graphs.graph.nodes,))
        owner = graphs.graph.membership()[graphs.graph.edge_index[0]].cpu()
        return sizes, owner.bincount(minlength=len(sizes)) / 2


def fit_baseline(model: Model[Any], train: AnyBatch, sizes: Mapping[str, int]) -> Baseline | None:
    """The baseline of a model on these data; None where there is none, as of a score or a word vector."""
    labels = train.labels
    if labels is not None and isinstance(model, Predicts):
        if labels.is_floating_point():
            return MeanTarget(labels)
        return ClassPrior(labels, max(sizes.get("classes", 0), int(labels.max()) + 1))
    if getattr(model, "likelihood_kind", "unnormalized") == "unnormalized":
        return None
    tokens = _predicted_tokens(train)
    if tokens is not None:
        seen = int(tokens.max()) + 1 if len(tokens) else 1
        return Unigram(tokens, max(sizes.get("target_vocab", sizes.get("vocab", 0)), seen))
    if isinstance(train, Videos):
        train = Batch(train.frames)
    if isinstance(train, Graphs):
        return EqualEdges(train)
    if isinstance(train, Batch) and model.support not in ("mixed", "any"):
        marginals = Marginals(_some(train).x, discrete=model.support != "real")
        return marginals if marginals.discrete or bool((marginals.std > 0).all()) else None  # else it has no bound
    return None


def _some(train: Batch) -> Batch:
    """The examples, or where they lie in files some that are spread over all."""
    if train.in_memory or len(train) <= FEW:
        return train
    return train.select(torch.arange(FEW, device=train.device) * len(train) // FEW)


def _labels(split: AnyBatch) -> Tensor:
    labels = split.labels
    assert labels is not None
    return labels


def _predicted_tokens(split: AnyBatch) -> Tensor | None:
    """The tokens that a model of sequences predicts, all but the first of each row, side by side."""
    if isinstance(split, Sequences):
        rows, lengths = split.x, split.lengths
    elif isinstance(split, SequencePairs | Captioned):
        rows, lengths = split.y, split.y_lengths
    else:
        return None
    return rows[:, 1:][valid_positions(rows[:, 1:], lengths - 1)]
