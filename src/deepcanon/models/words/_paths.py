"""Hierarchical softmax of word vectors: the decisions on the paths to words, as products of matrices."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

from deepcanon.models.words._contexts import Blocks
from deepcanon.nn.hierarchical_softmax import ClassTree


@dataclass(frozen=True)
class Decisions:
    """The decisions in M parts of a text, each of A hidden vectors at C nodes.

    In skip-gram a part is a block: the words in and around it predict the words in it, each of which has L nodes. In
    CBOW it is one word, which the mean of its context predicts.
    """

    hidden: Tensor  # (M, A, latent): h
    nodes: Tensor  # (M, C)
    outputs: Tensor  # (M, C, latent): v
    right: Tensor  # (M, 1, C): 1 where the path goes to the first child, else 0
    weight: Tensor  # (M, A, C): 1 where a decision counts, divided by the expected number of examples

    @property
    def scores(self) -> Tensor:
        return self.hidden @ self.outputs.mT

    def cost(self) -> Tensor:
        """The sum of the nats of all decisions."""
        return (self.weight * softplus((1 - 2 * self.right) * self.scores)).sum()

    def slopes(self) -> tuple[Tensor, Tensor]:
        """The gradients of the cost by the hidden vectors and by the outputs."""
        slope = self.scores.sigmoid_().sub_(self.right).mul_(self.weight)
        return slope @ self.outputs, slope.mT @ self.hidden


def decisions(
    tree: ClassTree, text: Blocks, hidden: Tensor, contexts: Tensor, skip_gram: bool, examples: Tensor
) -> Decisions:
    """The decisions of a text, given the vectors of the words around each block, or of the contexts of its words."""
    blocks, size = text.words.shape
    words = text.words.flatten()
    nodes, sides = tree.nodes.index_select(0, words), tree.sides.index_select(0, words)  # (N * S, L)
    there = sides.abs() / examples.clamp_min(1)
    if skip_gram:
        parts = blocks
        weight = (text.near.mT.unsqueeze(3) * there.view(blocks, 1, size, -1)).flatten(2)
    else:
        parts, hidden = blocks * size, hidden.view(blocks * size, 1, -1)
        weight = (there * (text.neighbors.view(-1, 1) > 0)).unsqueeze(1)
    outputs = contexts.index_select(0, nodes.flatten()).view(parts, -1, contexts.shape[1])
    right = (sides > 0).to(outputs.dtype).view(parts, 1, -1)
    return Decisions(hidden, nodes.view(parts, -1), outputs, right, weight)
