"""The transformer is torch.nn.Transformer on the same weights, a distribution over targets, and translates dates."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import DataError, SequencePairs, UsageError
from deepcanon.interop.transformer_names import load_transformer, to_transformer
from deepcanon.models.attention._token_positions import Place
from deepcanon.models.attention.transformer import Transformer

BEGIN, END = 0, 1
SIZES: dict[str, Any] = {"layers": 2, "heads": 2, "embedding": 8}


def model(vocab: int = 6, target_vocab: int = 3, **options: Any) -> Transformer:
    torch.manual_seed(0)
    made = Transformer(vocab, target_vocab, BEGIN, END, **{**SIZES, **options}).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made


def torch_transformer(post_norm: bool = False, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a fast path is not taken
        return nn.Transformer(8, 2, 2, 2, 20, 0.0, batch_first=True, norm_first=not post_norm, **options).double()


def sources() -> tuple[Tensor, Tensor]:
    x = torch.randint(6, (3, 6), generator=torch.Generator().manual_seed(1))
    return x, torch.tensor([6, 1, 4])


def test_it_has_as_many_parameters_as_torch_and_the_paper() -> None:
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = nn.Transformer()
        ours = Transformer(37000, 37000, 0, 1, layers=6, heads=8, embedding=512, inner=2048)
    count = sum(parameter.numel() for parameter in theirs.parameters())
    stacks = sum(parameter.numel() for stack in (ours.encoder, ours.decoder) for parameter in stack.parameters())
    assert count == stacks == 44_140_544
    assert sum(parameter.numel() for parameter in ours.parameters()) == 63_084_544  # with one embedding for all


@pytest.mark.parametrize("post_norm", [False, True])
@torch.no_grad()
def test_the_weights_of_torch_load_and_agree_and_go_back(post_norm: bool) -> None:
    ours, theirs = model(inner=20, post_norm=post_norm), torch_transformer(post_norm)
    for parameter in theirs.parameters():
        parameter.copy_(0.4 * torch.randn_like(parameter))
    table = ours.token_embedding.weight.clone()
    load_transformer(ours, theirs.state_dict())
    assert torch.equal(ours.token_embedding.weight, table)
    x, lengths = sources()
    y = torch.tensor([[0, 2, 2, 1], [0, 1, 0, 0], [0, 0, 2, 1]])
    padding = torch.arange(6) >= lengths[:, None]
    place = dc.nn.sinusoidal(6, 8, dtype=torch.float64)
    source = 8**0.5 * table[x + 3] + place  # of two vocabularies, that of the source comes second
    target = 8**0.5 * table[y] + place[:4]
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    options = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    wanted = theirs.train()(source, target, tgt_mask=hidden, **options) @ table[:3].T
    torch.testing.assert_close(ours(x, lengths, y), wanted, rtol=1e-10, atol=1e-12)
    again = torch_transformer(post_norm)
    again.load_state_dict(to_transformer(ours))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in theirs.state_dict().items())


def test_weights_of_another_size_are_refused() -> None:
    with pytest.raises(UsageError, match=r"it also has encoder.blocks.1"):
        load_transformer(model(layers=1, inner=20), torch_transformer().state_dict())
    with pytest.raises(UsageError, match=r"it has no encoder.blocks.2"):
        load_transformer(model(layers=3, inner=20), torch_transformer().state_dict())


STEPS = 3


def targets() -> tuple[list[list[int]], Tensor, Tensor]:
    """All targets of up to ``STEPS`` tokens after the begin token, complete or not."""
    rows = set()
    for row in product(range(3), repeat=STEPS):
        rows.add((BEGIN, *row[: row.index(END) + 1 if END in row else STEPS]))
    listed = [list(row) for row in sorted(rows)]
    y = torch.tensor([row + [-1] * (STEPS + 1 - len(row)) for row in listed])
    return listed, y, torch.tensor([len(row) for row in listed])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
@torch.no_grad()
def test_beams_and_caches_find_the_most_probable_of_all_targets(positions: Place) -> None:
    ours, (x, lengths) = model(positions=positions, longest=12), sources()
    rows, y, y_lengths = targets()
    found, ends = ours.translate(x, lengths=lengths, beams=50, steps=STEPS)
    for row in range(3):
        every = ours.log_prob(y, lengths=y_lengths, context=(x[row : row + 1], lengths[row : row + 1]))
        assert float(every.exp().sum()) == pytest.approx(1, abs=1e-12)
        assert found[row, : ends[row]].tolist() == rows[int(every.argmax())]


@torch.no_grad()
def test_positions_tell_the_order_and_without_them_there_is_none() -> None:
    x, y = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[0, 2, 2]])
    length = torch.tensor([5])
    for positions in ("none", "sinusoidal", "learned", "rotary", "relative"):
        ours = model(positions=positions, longest=5)
        same = torch.allclose(ours(x, length, y), ours(x.flip(1), length, y), rtol=0, atol=1e-12)
        assert same == (positions == "none"), positions
    with pytest.raises(DataError, match="positions are learned for up to 3 tokens; got 5"):
        model(positions="learned", longest=3)(x, length, y)
    with pytest.raises(UsageError, match="positions must be one of"):
        model(positions="absolute")
    with pytest.raises(UsageError, match="dropout is the probability"):
        model(dropout=1.0)


@torch.no_grad()
def test_the_alignment_is_the_attention_by_which_it_decodes() -> None:
    ours, (x, lengths) = model(layers=1), sources()
    y = torch.tensor([[0, 2, 2, 1], [0, 1, 0, 0], [0, 0, 2, 1]])
    maps = ours.cross_attention_maps(x, y, lengths=lengths)
    assert maps.shape == (1, 3, 2, 3, 6)
    torch.testing.assert_close(maps.sum(-1), torch.ones(1, 3, 2, 3).double())
    inside = torch.arange(6) < lengths[:, None]
    assert not maps.permute(1, 4, 0, 2, 3)[~inside].any()
    torch.testing.assert_close(ours.alignment(x, y, lengths=lengths), maps.mean((0, 2)))
    # the decoder's block again, with its cross-attention put together from the map
    memory, _ = ours.given((x, lengths))._encoded(3)
    block: Any = ours.decoder.blocks[0]
    h = ours.decoder.positions(ours._target(y[:, :-1]))
    h = h + block.attention(block.attention_norm(h), causal=True)
    values = block.cross_attention._of_heads(2, memory)
    h = h + block.cross_attention.output((maps[0] @ values).transpose(1, 2).flatten(2))
    h = ours.decoder.norm(h + block.mlp(block.mlp_norm(h)))
    torch.testing.assert_close(ours.token_embedding.logits(h), ours(x, lengths, y[:, :-1]))


@pytest.mark.slow
def test_it_translates_dates() -> None:
    data = dc.load_data("dates")
    torch.manual_seed(0)
    sizes: dict[str, Any] = {**data.sizes, "layers": 1, "embedding": 48}
    ours = Transformer(**sizes)
    result = dc.fit(ours, data, steps=240, batch_size=64, lr=4e-3, quiet=True)
    assert result.test["accuracy"] > 0.9, result.test


def test_targets_that_never_end_are_no_longer_than_those_that_were_learned_from() -> None:
    ours, (x, lengths) = model(), sources()
    ours.token_embedding.weight.data[1] = 0  # the end token, whose logit is 0 and not the largest
    tokens, ends = ours.translate(x, lengths=lengths)
    assert int(ends.max()) == 1 + 10 + 2 * int(lengths.max())
    y = torch.tensor([[0, 2, 1, 1, 1], [0, 2, 2, 2, 1], [0, 1, 1, 1, 1]])[: len(x)]
    ours.prepare([SequencePairs(x, lengths, y, torch.tensor([3, 5, 2])[: len(x)])])
    again = model()
    again.load_state_dict(ours.state_dict())
    assert int(again.translate(x, lengths=lengths)[1].max()) == 5
    assert torch.equal(again.translate(x, lengths=lengths, steps=22)[0], tokens)
