"""The block is that of torch.nn.Transformer on the same weights, and reads on from a cache as it reads all at once."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from deepcanon.core import UsageError
from deepcanon.models.attention._transformer import Block, BlockCache, DecodingState, init_weights
from deepcanon.nn.attention import MultiHeadAttention


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shaken(module: Any) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return module.double().eval()


def give(ours: Any, theirs: Any, *parts: tuple[str, str]) -> None:
    """Give a layer of torch the weights of a block."""
    for mine, name in parts:
        target, source = getattr(theirs, name), getattr(ours, mine)
        if isinstance(target, nn.MultiheadAttention):
            target.in_proj_weight.copy_(source.projection.weight)
            target.in_proj_bias.copy_(source.projection.bias)
            target.out_proj.load_state_dict(source.output.state_dict())
        else:
            target.load_state_dict(source.state_dict())


PADDED = torch.tensor([[False] * 6, [False] * 4 + [True] * 2, [False] * 2 + [True] * 4])


@pytest.mark.parametrize("post_norm", [False, True])
@torch.no_grad()
def test_it_is_the_encoder_layer_of_torch(post_norm: bool) -> None:
    ours = shaken(Block(8, 2, activation=relu, post_norm=post_norm, inner=20))
    theirs = nn.TransformerEncoderLayer(8, 2, 20, batch_first=True, norm_first=not post_norm).double()
    give(
        ours, theirs, ("attention", "self_attn"), ("attention_norm", "norm1"), ("mlp_norm", "norm2"),
        ("up_projection", "linear1"), ("down_projection", "linear2"),
    )  # fmt: skip
    theirs.train()  # in eval mode torch takes a fast path with kernels of its own
    for part in theirs.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    theirs.self_attn.dropout = 0.0
    x = some(3, 6, 8)
    wanted = theirs(x, src_key_padding_mask=PADDED)
    found = ours(x, ~PADDED[:, None, None])
    torch.testing.assert_close(found[~PADDED], wanted[~PADDED], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("post_norm", [False, True])
@torch.no_grad()
def test_with_a_memory_it_is_the_decoder_layer_of_torch(post_norm: bool) -> None:
    ours = shaken(Block(8, 2, activation=relu, post_norm=post_norm, inner=20, memory=8))
    theirs = nn.TransformerDecoderLayer(8, 2, 20, batch_first=True, norm_first=not post_norm).double().eval()
    give(
        ours, theirs, ("attention", "self_attn"), ("cross_attention", "multihead_attn"), ("attention_norm", "norm1"),
        ("memory_norm", "norm2"), ("mlp_norm", "norm3"), ("up_projection", "linear1"), ("down_projection", "linear2"),
    )  # fmt: skip
    x, memory = some(3, 4, 8), some(3, 6, 8, seed=1)
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    wanted = theirs(x, memory, tgt_mask=hidden, memory_key_padding_mask=PADDED)
    found = ours(x, causal=True, memory=memory, memory_mask=~PADDED[:, None, None])
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("memory", [None, 5])
@pytest.mark.parametrize("post_norm", [False, True])
@torch.no_grad()
def test_it_reads_on_from_a_cache_as_it_reads_all_at_once(memory: int | None, post_norm: bool) -> None:
    block = shaken(Block(8, 2, post_norm=post_norm, head_dim=3, memory=memory))
    x = some(3, 7, 8)
    others = {} if memory is None else {"memory": some(3, 4, memory, seed=1)}
    whole = block(x, causal=True, **others)
    cache = BlockCache.empty(capacity=2)
    parts = [block(part, causal=True, cache=cache, **others) for part in x[:, :6].split((2, 1, 3), 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole[:, :6], rtol=1e-12, atol=1e-13)
    rows = torch.tensor([2, 0, 0, 1])
    state = DecodingState(torch.arange(3).unsqueeze(1), [cache]).select(rows)
    assert state.tokens.flatten().tolist() == rows.tolist()
    others = {name: value[rows] for name, value in others.items()}
    found = block(x[rows, 6:], causal=True, cache=state.caches[0], **others)
    torch.testing.assert_close(found, whole[rows, 6:], rtol=1e-12, atol=1e-13)
    assert cache.own.size == 6  # the state that was selected from stays as it was


@torch.no_grad()
def test_norm_widths_and_attention_are_to_be_chosen() -> None:
    class Mean(nn.Module):
        """Attention that attends to everything alike."""

        def forward(self, x: Tensor, **_: Any) -> Tensor:
            return x.mean(1, keepdim=True).expand_as(x)

    block = shaken(Block(6, 4, norm="rms", inner=5, head_dim=7, attention=Mean(), epsilon=1e-3))
    x = some(2, 3, 6)
    normal = x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * block.attention_norm.weight
    h = x + normal.mean(1, keepdim=True)
    torch.testing.assert_close(block(x), h + block.mlp(block.mlp_norm(h)))
    assert block.up_projection.weight.shape == (5, 6)
    wide = Block(6, 4, head_dim=7)
    assert wide.attention.projection.weight.shape == (84, 6)
    assert wide(torch.zeros(1, 2, 6)).shape == (1, 2, 6)


@torch.no_grad()
def test_the_weights_it_shows_are_those_it_attends_by() -> None:
    for post_norm in (False, True):
        block = shaken(Block(8, 2, post_norm=post_norm))
        x = some(2, 5, 8)
        h = x if post_norm else block.attention_norm(x)
        values = block.attention.projection(h).chunk(3, -1)[2].unflatten(-1, (2, 4)).transpose(1, 2)
        heads = block.attention_weights(x, causal=True) @ values
        attended = block.attention.output(heads.transpose(1, 2).flatten(2))
        torch.testing.assert_close(attended, block.attention(h, causal=True))


def test_dropout_acts_on_what_is_added_and_in_training_only() -> None:
    block = Block(8, 2, drop=0.5)
    x = torch.randn(4, 5, 8)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


def test_initial_weights_are_smaller_where_they_feed_a_skip_connection() -> None:
    block = Block(128, 4)
    init_weights(block, blocks=8)
    assert block.down_projection.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert block.up_projection.weight.std().item() == pytest.approx(0.02, rel=0.05)
    init_weights(block)
    assert block.down_projection.weight.std().item() == pytest.approx(0.02, rel=0.05)


def test_what_makes_no_sense_is_refused() -> None:
    x = torch.zeros(1, 2, 8)
    with pytest.raises(UsageError, match="needs a memory"):
        Block(8, 2, memory=8)(x)
    with pytest.raises(UsageError, match="takes none"):
        Block(8, 2)(x, memory=x)
    with pytest.raises(UsageError, match="norm must be one of"):
        Block(8, 2, norm="batch")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="inner must be at least 1"):
        Block(8, 2, inner=0)
    with pytest.raises(UsageError, match="head_dim must be at least 1"):
        MultiHeadAttention(8, 2, head_dim=0)
