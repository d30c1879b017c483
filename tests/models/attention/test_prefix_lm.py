"""A prefix language model attends as its mask says, and no further, is a distribution, and reads on from its caches."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.models.attention.prefix_lm import PrefixLM, prefix_mask

BEGIN, END = 0, 1


def model(**options: Any) -> PrefixLM:
    torch.manual_seed(0)
    made = PrefixLM(6, 3, BEGIN, END, **{"layers": 2, "heads": 2, "embedding": 8, **options}).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made


def sources() -> tuple[Tensor, Tensor]:
    x = torch.randint(6, (3, 4), generator=torch.Generator().manual_seed(1))
    return x, torch.tensor([4, 1, 3])


def test_gradients_flow_where_the_mask_is_true_and_nowhere_else() -> None:
    """The support of the Jacobian of one block: the prefix in both directions, the target forward only."""
    ours, (_, lengths) = model(layers=1), sources()
    h = torch.randn(3, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    mask = prefix_mask(lengths, 4, 7, 7)
    block: Any = ours.blocks[0]
    reached = torch.zeros(3, 7, 7, dtype=torch.bool)
    for query in range(7):
        (gradient,) = torch.autograd.grad(block(h, mask)[:, query].square().sum(), h)
        reached[:, query] = gradient.abs().sum(-1) > 0
    wanted = torch.zeros(3, 7, 7, dtype=torch.bool)
    for row, query, key in product(range(3), range(7), range(7)):
        visible = key < lengths[row] or (key >= 4 and key <= query)
        wanted[row, query, key] = visible or query == key  # the skip connection
    assert torch.equal(reached, wanted)


@torch.no_grad()
def test_each_prediction_reads_all_of_the_prefix_and_the_target_so_far() -> None:
    ours, (x, lengths) = model(), sources()
    y = torch.tensor([[0, 2, 2, 0], [0, 1, 0, 2], [0, 0, 2, 1]])
    whole = ours(x, lengths, y)
    for place in range(4):
        other = x.clone()
        other[:, place] = (other[:, place] + 1) % 6
        moved = (ours(other, lengths, y) != whole).any(-1)
        assert torch.equal(moved, (place < lengths).unsqueeze(1).expand(-1, 4)), place
        changed = y.clone()
        changed[:, place] = (changed[:, place] + 1) % 3
        moved = (ours(x, lengths, changed) != whole).any(-1)
        assert torch.equal(moved, (torch.arange(4) >= place).expand(3, -1)), place


@torch.no_grad()
def test_a_padded_prefix_is_the_prefix_alone() -> None:
    for positions in ("sinusoidal", "learned"):
        ours, (x, lengths) = model(positions=positions, longest=9), sources()
        y = torch.tensor([[0, 2, 2, 0], [0, 1, 0, 2], [0, 0, 2, 1]])
        together = ours(x, lengths, y)
        for row, length in enumerate(lengths.tolist()):
            alone = ours(x[row : row + 1, :length], torch.tensor([length]), y[row : row + 1])
            torch.testing.assert_close(alone[0], together[row], rtol=1e-12, atol=1e-13)


@torch.no_grad()
def test_with_a_prefix_of_one_token_it_is_a_causal_transformer() -> None:
    """The same blocks under torch's causal attention give the same states."""
    ours = model()
    x, y = torch.tensor([[4]]), torch.tensor([[0, 2, 1, 2, 0]])
    h = torch.cat([ours.token_embedding.of_source(x), ours.token_embedding(y)], 1)
    h = ours.positions(h)
    for block in ours.blocks:
        h = block(h, causal=True)
    wanted = ours.token_embedding.logits(ours.norm(h)[:, 1:])
    torch.testing.assert_close(ours(x, torch.tensor([1]), y), wanted, rtol=1e-12, atol=1e-13)


@torch.no_grad()
def test_a_wide_beam_finds_the_most_probable_of_all_targets() -> None:
    ours, (x, lengths) = model(), sources()
    rows = sorted({(BEGIN, *row[: row.index(END) + 1 if END in row else 3]) for row in product(range(3), repeat=3)})
    y = torch.tensor([[*row] + [-1] * (4 - len(row)) for row in rows])
    y_lengths = torch.tensor([len(row) for row in rows])
    found, ends = ours.translate(x, lengths=lengths, beams=50, steps=3)
    for row in range(3):
        every = ours.log_prob(y, lengths=y_lengths, context=(x[row : row + 1], lengths[row : row + 1]))
        assert float(every.exp().sum()) == pytest.approx(1, abs=1e-12)
        assert tuple(found[row, : ends[row]].tolist()) == rows[int(every.argmax())]


@torch.no_grad()
def test_the_alignment_is_a_part_of_the_attention() -> None:
    ours, (x, lengths) = model(), sources()
    y = torch.tensor([[0, 2, 2, 1], [0, 1, 0, 2], [0, 0, 2, 1]])
    weights = ours.alignment(x, y, lengths=lengths)
    assert weights.shape == (3, 3, 4)
    assert not weights.mT[torch.arange(4) >= lengths[:, None]].any()
    assert (weights.sum(-1) < 1).all()
    torch.testing.assert_close(ours.cross_attention_maps(x, y, lengths=lengths).mean((0, 2)), weights)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="positions must be one of"):
        model(positions="relative")
    with pytest.raises(UsageError, match="dropout is the probability"):
        model(dropout=-1.0)
