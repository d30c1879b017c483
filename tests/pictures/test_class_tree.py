"""The picture of a tree: branches end where paths do, with the shares of the classes below them."""

from __future__ import annotations

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.nn import huffman_tree
from deepcanon.pictures.class_tree import tree_picture
from deepcanon.pictures.legibility import faults


def test_branches_end_at_classes_and_subtrees() -> None:
    counts = torch.tensor([40, 20, 10, 5, 3, 2])
    tree = huffman_tree(counts)
    figure = tree_picture(tree.nodes, tree.sides, counts, list("abcdef"), "a tree", levels=3)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert {"a", "b", "c", "50.0%", "25.0%", "12.5%"} <= set(texts)
    assert "d, e, f … (3)" in texts
    assert faults(figure) == []


def test_a_tree_needs_the_names_of_its_classes() -> None:
    tree = huffman_tree(torch.ones(4))
    with pytest.raises(UsageError, match="a tree of 4 classes needs as many names, got 3"):
        tree_picture(tree.nodes, tree.sides, torch.ones(4), list("abc"))
