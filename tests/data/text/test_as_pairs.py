"""Pairs made of a text lose nothing of it, replace the share they should, and are drawn anew from the seed alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.data.text.as_pairs import Signs, TextPairs, corrupted, split
from deepcanon.data.text.tokenizers import tokenizer_of

SIGNS = Signs(begin=1, end=2, sentinel=90)


def texts() -> tuple[Tensor, Tensor]:
    sizes = torch.tensor([60, 33, 2, 60, 7])
    text = torch.randint(3, 90, (5, 60), generator=torch.Generator().manual_seed(0))
    return text.masked_fill(torch.arange(60) >= sizes[:, None], 0), sizes


def rows(tokens: Tensor, lengths: Tensor) -> list[list[int]]:
    return [row[:end] for row, end in zip(tokens.tolist(), lengths.tolist(), strict=True)]


def mended(source: list[int], target: list[int]) -> list[int]:
    """The source with what the target says in place of each sentinel."""
    spans: dict[int, list[int]] = {}
    for token in target[1:-1]:
        if token >= SIGNS.sentinel:
            spans[token] = []
        else:
            spans[[*spans][-1]].append(token)
    assert [token for token in source if token >= SIGNS.sentinel] == [*spans]  # one each, in order
    assert all(spans.values())
    return [each for token in source for each in spans.get(token, [token])]


@pytest.mark.parametrize("seed", range(5))
def test_a_corrupted_text_can_be_mended(seed: int) -> None:
    text, sizes = texts()
    pairs = corrupted(text, sizes, torch.Generator().manual_seed(seed), SIGNS)
    for source, target, whole in zip(
        rows(pairs.x, pairs.lengths), rows(pairs.y, pairs.y_lengths), rows(text, sizes), strict=True
    ):
        assert (target[0], target[-1]) == (1, 2)
        assert mended(source, target) == whole
        spans = sum(token >= SIGNS.sentinel for token in source)
        replaced = len(whole) - (len(source) - spans)
        assert replaced == max(1, round(0.15 * len(whole)))
        assert spans == max(1, round(replaced / 3))


def test_every_place_but_the_first_is_replaced_as_often() -> None:
    """Over many draws the inner places of a text are corrupted alike, and spans have three tokens on average."""
    text = torch.arange(3, 63).expand(4000, -1)
    pairs = corrupted(text, torch.full((4000,), 60), torch.Generator().manual_seed(0), SIGNS)
    replaced = torch.stack([(pairs.y == token).any(1) for token in range(3, 63)], 1).double().mean(0)
    assert float(replaced.mean()) == pytest.approx(0.15, abs=1e-9)
    inner = replaced[10:50]
    assert float((inner - inner.mean()).abs().max()) < 0.05
    assert pairs.y_lengths.unique().tolist() == [9 + 3 + 2]


def test_a_prefix_and_what_follows_it_are_the_text() -> None:
    text, sizes = texts()
    cuts = set()
    for seed in range(20):
        pairs = split(text, sizes, torch.Generator().manual_seed(seed), SIGNS)
        for source, target, whole in zip(
            rows(pairs.x, pairs.lengths), rows(pairs.y, pairs.y_lengths), rows(text, sizes), strict=True
        ):
            assert (target[0], target[-1]) == (1, 2)
            assert source + target[1:-1] == whole
            cuts |= {len(source)} if len(whole) == 7 else set()
    assert cuts == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("form", ["spans", "prefix"])
def test_a_text_comes_as_pairs_that_are_new_at_every_step(form: str) -> None:
    data = dc.load_data(f"text:{form}")
    assert data.kind == "pairs"
    assert data.sizes["vocab"] == data.sizes["target_vocab"] == len(data.vocabulary)
    batch = data.train.select(torch.arange(6))
    assert isinstance(batch, TextPairs)
    assert data.fresh is not None
    one, same, other = (data.fresh(batch, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.y, same.y)
    assert one.y.shape != other.y.shape or not torch.equal(one.y, other.y)
    assert torch.equal(one.text, batch.text)
    tokenizer = tokenizer_of((), data.preprocessing)
    assert tokenizer.vocabulary == data.vocabulary
    shown = tokenizer.decode(rows(batch.x, batch.lengths)[0])
    assert tokenizer.encode(shown) == rows(batch.x, batch.lengths)[0]
    with pytest.raises(UsageError, match="gives pairs, but words are a form of text"):
        dc.load_data(f"text:{form}:words")
    with pytest.raises(UsageError, match=f"moons gives points, but {form} is a form of text"):
        dc.load_data(f"moons:{form}")
