"""Hierarchical softmax: a class is a leaf of a binary tree, and its probability a product of decisions."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from deepcanon.core.checks import one_of
from deepcanon.core.display import Shown
from deepcanon.core.precision import full
from deepcanon.nn.output_layer import OutputLayer

TreeShape = Literal["huffman", "balanced"]


@dataclass(frozen=True, repr=False)
class ClassTree(Shown):
    """A binary tree whose leaves are C classes: the path from the root to each leaf.

    The C - 1 inner nodes are numbered by how many classes lie below them, most first: the root is node 0.
    """

    nodes: Tensor  # (C, depth): the inner nodes on the path to each class, 0 after its end
    sides: Tensor  # (C, depth): 1 or -1, which child follows; 0 after the end of the path

    def _facts(self) -> dict[str, Any]:
        return {"classes": len(self.nodes), "depth": self.nodes.shape[1]}

    @property
    def lengths(self) -> Tensor:
        """The number of decisions on the path to each class, (C,)."""
        return self.sides.abs().sum(1).long()


def balanced_tree(classes: int) -> ClassTree:
    """The tree that halves the classes in their order: no path has more than ceil(log2 C) decisions.

    >>> balanced_tree(6).lengths
    tensor([3, 3, 2, 3, 3, 2])
    """
    children: list[tuple[int, int]] = []  # of each inner node; classes are 0 to C - 1, inner nodes follow

    def join(first: int, last: int) -> int:
        if last - first == 1:
            return first
        middle = (first + last + 1) // 2
        children.append((join(first, middle), join(middle, last)))
        return classes + len(children) - 1

    join(0, classes)
    return _paths(classes, children)


def huffman_tree(counts: Tensor) -> ClassTree:
    """The tree of the shortest expected path: the two rarest subtrees are joined until one is left.

    >>> huffman_tree(torch.tensor([8, 4, 2, 1])).lengths
    tensor([1, 2, 3, 3])
    """
    queue = [(count, number) for number, count in enumerate(counts.tolist())]
    heapq.heapify(queue)
    children: list[tuple[int, int]] = []
    while len(queue) > 1:
        (rarest, left), (rare, right) = heapq.heappop(queue), heapq.heappop(queue)
        children.append((left, right))
        heapq.heappush(queue, (rarest + rare, len(counts) + len(children) - 1))
    return _paths(len(counts), children)


class HierarchicalSoftmax(OutputLayer):
    r"""The softmax as a tree of decisions, whose cost is the length of a path: about log2 C.

    .. math:: p(y \mid h) = \prod_{j \in \text{path}(y)} \sigma\bigl(d_j(y)\,
              (\langle w_j, h \rangle + b_j)\bigr), \qquad d_j(y) \in \{-1, 1\} \qquad (1)

    Every inner node j sends its probability to two children, so that those of all classes sum up to one. The Huffman
    tree has the least expected number L of decisions for how often classes occur, :math:`H \le L < H + 1` with their
    entropy H in bits; before their counts are known it takes all classes to be equally frequent.

    References:
        | Hierarchical Probabilistic Neural Network Language Model (Morin and Bengio, 2005),
          https://proceedings.mlr.press/r5/morin05a.html
        | A Scalable Hierarchical Distributed Language Model (Mnih and Hinton, 2008),
          https://papers.nips.cc/paper/3583

    Arguments:
        width: The width of the hidden vectors.
        classes: The number of classes.
        tree: ``huffman``, by how often classes occur, or ``balanced``, by their order.
    """

    counts: Tensor
    nodes: Tensor
    sides: Tensor

    def __init__(self, width: int, classes: int, tree: TreeShape = "huffman") -> None:
        super().__init__(width, classes)
        one_of(get_args(TreeShape), tree=tree)
        self.tree = tree
        self.scores = nn.Linear(width, classes - 1)  # w, b
        self.register_buffer("counts", torch.ones(classes, dtype=torch.long))
        for name in ("nodes", "sides"):  # which follow from the counts
            self.register_buffer(name, torch.empty(0), persistent=False)
        self._plant()
        self.register_load_state_dict_post_hook(lambda layer, _: layer._plant())  # type: ignore[no-untyped-call]

    def follow(self, counts: Tensor) -> None:
        self.counts.copy_(counts)
        self._plant()

    def log_probs(self, h: Tensor) -> Tensor:
        scores = full(self.scores(h))  # (..., C - 1)
        total = scores.new_zeros(*h.shape[:-1], self.classes)
        for node, side in zip(self.nodes.T, self.sides.T, strict=True):  # level by level
            total = total - softplus(-side * scores[..., node]) * side.abs()
        return total

    def nats(self, h: Tensor, y: Tensor) -> Tensor:
        path, side = self.nodes[y], self.sides[y]  # (..., depth)
        scores = full((self.scores.weight[path] @ h.unsqueeze(-1)).squeeze(-1) + self.scores.bias[path])
        return (softplus(-side * scores) * side.abs()).sum(-1)  # eq. (1)

    @torch.no_grad()
    def _plant(self) -> None:
        if self.counts.is_meta:
            return
        by_counts = self.tree == "huffman"
        tree = huffman_tree(self.counts.clamp_min(1)) if by_counts else balanced_tree(self.classes)
        self.nodes = tree.nodes.to(self.counts.device)
        self.sides = tree.sides.to(self.scores.weight)


def _paths(classes: int, children: list[tuple[int, int]]) -> ClassTree:
    """The paths of a tree whose inner nodes are listed after those below them: the last one is the root."""
    nodes: list[list[int]] = [[] for _ in range(classes + len(children))]
    sides: list[list[int]] = [[] for _ in nodes]
    below = [1] * classes
    for left, right in children:
        below.append(below[left] + below[right])
    order = sorted(range(len(children)), key=lambda inner: -below[classes + inner])
    number = {inner: place for place, inner in enumerate(order)}
    for inner in reversed(range(len(children))):
        for side, child in zip((1, -1), children[inner], strict=True):
            nodes[child] = [*nodes[classes + inner], number[inner]]
            sides[child] = [*sides[classes + inner], side]
    depth = max(map(len, nodes[:classes]))
    padded = ([row + [0] * (depth - len(row)) for row in paths[:classes]] for paths in (nodes, sides))
    return ClassTree(*(torch.tensor(rows) for rows in padded))


def entropy_in_bits(counts: Tensor) -> float:
    """The entropy of classes that occur so often, in bits.

    >>> entropy_in_bits(torch.tensor([2, 1, 1]))
    1.5
    """
    share = counts.double() / counts.sum()
    return float(torch.special.entr(share).sum()) / math.log(2)
