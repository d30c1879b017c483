"""The engine of node classification: graph neural networks that predict the classes of a graph's nodes."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Generator, Tensor
from torch.distributions import Categorical

from deepcanon.core import Evaluated, Graph, GraphBatch, How, Model, Sparse, Terms, UsageError, draw
from deepcanon.core.precision import full
from deepcanon.models._predictor import ClassWeighted, plain_nll


class NodeClassifier(ClassWeighted, Model[GraphBatch]):
    """A node classifier: its ``forward`` gives logits for every node of a graph, (nodes, classes).

    All nodes and edges are inputs, but only the nodes in the batch's mask count in the loss (transductive learning).
    """

    @abstractmethod
    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The logits of every node, (nodes, classes); the graph may be given as its ``edge_index``."""

    @abstractmethod
    def embed(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The node embeddings, the hidden features before the last layer, (nodes, width)."""

    def loss(self, batch: GraphBatch) -> Terms:
        return self._loss_of(*self._labeled(batch))

    @torch.no_grad()
    def metrics(self, batch: GraphBatch) -> Terms:
        return self.evaluated(batch).metrics

    def evaluated(self, batch: GraphBatch) -> Evaluated:
        logits, y = self._labeled(batch)
        terms = self._loss_of(logits, y)
        right = (logits.argmax(-1) == y).to(logits.dtype)
        return Evaluated(terms, {"accuracy": right.mean(), "nll": plain_nll(logits, terms, y)})

    def _loss_of(self, logits: Tensor, y: Tensor) -> Terms:
        """The loss of the logits of the nodes that count."""
        return self.class_terms(logits.log_softmax(-1), y)

    @torch.no_grad()
    def predict(
        self, x: Tensor | Sparse, graph: Graph | Tensor, *, how: How = "mode", generator: Generator | None = None
    ) -> Tensor:
        """Of every node: the most probable class, (nodes,), the probabilities, (nodes, classes), or a sampled class."""
        if how not in ("mode", "mean", "sample"):
            raise UsageError(f"how must be one of mode, mean, sample (got {how!r})")
        logits = self._logits(x, graph)
        if how == "sample":
            return draw(Categorical(logits=logits, validate_args=False), generator)
        return logits.argmax(-1) if how == "mode" else logits.softmax(-1)

    def _labeled(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The logits and the classes of the nodes that count."""
        logits = self._logits(*batch.inputs)
        return logits.index_select(0, batch.counted), batch.y.index_select(0, batch.counted)

    def _logits(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        logits: Tensor = self(x, graph)
        return full(logits)
