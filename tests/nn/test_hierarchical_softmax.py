"""Trees over classes: lengths against entropy and enumeration, codes against gensim, costs by counting."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from deepcanon.core import UsageError
from deepcanon.nn import FullSoftmax, HierarchicalSoftmax, OutputLayer, balanced_tree, huffman_tree
from deepcanon.nn.hierarchical_softmax import entropy_in_bits


def expected_length(counts: Tensor) -> float:
    share = counts.double() / counts.sum()
    return float(share @ huffman_tree(counts).lengths.double())


@pytest.mark.parametrize("seed", range(6))
def test_a_huffman_tree_is_within_a_bit_of_the_entropy(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    counts = (torch.rand(3 + 40 * seed, generator=generator) ** -(1 + seed)).clamp_max(1e6).long() + 1
    entropy, length = entropy_in_bits(counts), expected_length(counts)
    assert entropy - 1e-9 <= length < entropy + 1


@pytest.mark.parametrize("counts", [[1, 1], [5, 1, 1], [8, 4, 2, 1, 1], [1, 1, 2, 3, 5, 8], [3, 3, 3, 3, 3]])
def test_no_prefix_code_is_shorter_than_huffmans(counts: list[int]) -> None:
    """All lengths that keep Kraft's inequality are those of a prefix code."""
    codes = itertools.product(range(1, len(counts)), repeat=len(counts))
    best = min(
        sum(c * n for c, n in zip(counts, code, strict=True)) for code in codes if sum(2.0**-n for n in code) <= 1
    )
    assert expected_length(torch.tensor(counts)) * sum(counts) == pytest.approx(best)


def test_gensim_builds_codes_of_the_same_expected_length() -> None:
    gensim = pytest.importorskip("gensim.models", reason="needs gensim, of deepcanon[oracles]")
    counts = [900, 400, 400, 120, 77, 30, 12, 12, 5, 3, 1, 1, 1]
    peer = gensim.Word2Vec(hs=1, negative=0, min_count=1, vector_size=2)
    peer.build_vocab_from_freq({str(number): count for number, count in enumerate(counts)})
    theirs = sum(count * len(peer.wv.get_vecattr(str(word), "code")) for word, count in enumerate(counts))
    assert expected_length(torch.tensor(counts)) * sum(counts) == pytest.approx(theirs)


@pytest.mark.parametrize("classes", [2, 3, 5, 8, 9, 100, 1025])
def test_paths_of_a_balanced_tree_differ_by_one_decision_at_most(classes: int) -> None:
    tree = balanced_tree(classes)
    assert tree.nodes.shape == (classes, math.ceil(math.log2(classes)))
    assert int(tree.lengths.min()) >= math.floor(math.log2(classes))
    assert float((0.5 ** tree.lengths.double()).sum()) == 1  # Kraft: no leaf is missing
    assert set(tree.nodes.flatten().tolist()) == set(range(classes - 1))


def operations(layer: OutputLayer) -> int:
    with FlopCounterMode(display=False) as counter:
        layer.nats(torch.zeros(1, 16), torch.tensor([layer.classes - 1]))
    return int(counter.get_total_flops())


def test_the_cost_is_the_logarithm_of_the_number_of_classes() -> None:
    for bits in (2, 5, 10):
        assert operations(HierarchicalSoftmax(16, 2**bits, tree="balanced")) == 2 * 16 * bits
        assert operations(FullSoftmax(16, 2**bits)) == 2 * 16 * 2**bits


def test_a_decision_between_two_classes_is_a_softmax() -> None:
    torch.manual_seed(0)
    layer = HierarchicalSoftmax(4, 2).double()
    h, y = torch.randn(5, 4).double(), torch.tensor([0, 1, 1, 0, 1])
    scores = layer.scores(h)
    wanted = cross_entropy(torch.cat([scores, torch.zeros_like(scores)], 1), y, reduction="none")
    torch.testing.assert_close(layer.nats(h, y), wanted)


def test_the_tree_comes_back_with_the_weights() -> None:
    layer = HierarchicalSoftmax(3, 6)
    layer.follow(torch.tensor([1, 2, 4, 8, 16, 32]))
    again = HierarchicalSoftmax(3, 6)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again.nodes, layer.nodes)
    assert torch.equal(again.sides, layer.sides)
    assert again.sides.shape == (6, 5)


def test_an_unknown_tree_is_refused() -> None:
    with pytest.raises(UsageError, match="tree must be one of huffman, balanced"):
        HierarchicalSoftmax(3, 6, tree="oak")  # type: ignore[arg-type]
