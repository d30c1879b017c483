"""The engine of node classification: graph neural networks that predict the classes of a graph's nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical

from deepcanon.core import Evaluated, Graph, GraphBatch, How, Model, Sparse, Terms, UsageError, draw
from deepcanon.core.precision import full
from deepcanon.models._predictor import ClassWeighted, plain_nll
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.nn.graph_conv import dropped


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


class NodeNetwork(NodeClassifier):
    """A node classifier of graph layers in a row, with an activation and dropout before each but the first.

    The last layer gives the logits. A leaf makes its layers, each called as ``layer(x, graph)``.
    """

    def _layered(self, layers: Iterable[nn.Module], activation: Activation, dropout: float) -> None:
        """Keep the layers that the network is made of, once they are made."""
        check_dropout(dropout)
        self.convs = nn.ModuleList(layers)
        self.activation = activation_layer(activation)
        self.dropout = dropout

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The logits of every node, (nodes, classes); the graph may be given as its ``edge_index``."""
        logits: Tensor = self.convs[-1](dropped(self._hidden(x, graph), self.dropout, self.training), graph)
        return logits

    def embed(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The node embeddings of the last hidden layer, (nodes, width); without one, the features themselves."""
        return self._hidden(x, graph).to_dense()

    def _hidden(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor | Sparse:
        for conv in self.convs[:-1]:
            x = self.activation(conv(dropped(x, self.dropout, self.training), graph))
        return x


class AtEveryNode(nn.Linear):
    """A linear layer of every node's own features, in the place of a graph layer."""

    def forward(self, x: Tensor, graph: Graph | Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)


def check_dropout(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise UsageError(f"dropout is the probability to drop a feature, from 0 to below 1 (got {dropout})")


def ring_batch() -> GraphBatch:
    """A ring of twelve nodes in two classes, every second of which counts: the example of the family."""
    random = torch.Generator().manual_seed(0)
    ring = torch.arange(12)
    edges = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], 1)
    y = (ring >= 6).long()
    x = torch.randn(12, 3, generator=random) + y.unsqueeze(1)
    return GraphBatch(x=x, y=y, mask=ring % 2 == 0, graph=Graph(edges, 12))
