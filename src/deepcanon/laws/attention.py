"""The laws of attention: layers that are called as ``layer(query, key, value, mask)``, and models built of them.

A mask is boolean, (queries, keys) or (B, 1, queries, keys), and True where a query may attend. Besides, a layer may
have ``weights(query, key, mask)``, (B, heads, queries, keys), and ``new_cache(capacity)``, the memory that it takes as
``cache``. ``torch.nn.MultiheadAttention``, where True in a mask means hidden, is called in its own way. The examples
are sequences of vectors, (B, T, width). A model of tokens has ``read(tokens, state)``, cached decoding from a state,
and may have ``attention_maps(tokens)``.

``torch.nn.MultiheadAttention`` breaks two of them: NaN spreads from a masked position, and a query with all keys masked
gets NaN.
"""

from __future__ import annotations

import copy
import inspect
import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import answer, called, given_or, is_plain, sequences
from deepcanon.laws.probe import TIGHT, distance, doubled, first, seeded
from deepcanon.laws.scores import Seen, scale_of, weights_of

ROWS = 4
LONGER = 24
"""How many times longer than the examples a sequence is that chunks cut."""
NAME = "[Aa]ttention|[Aa]ttn"


@law
def scores_are_divided_by_the_root_of_the_key_width(module: Any, batch: AnyBatch) -> Measured | None:
    """Scores are q . k / sqrt(d), with the width d of a head's keys: so much is their standard deviation, else.

    Queries and keys are found among the inputs and their linear projections; where the scores are other functions of
    them, as in additive attention or with rotated keys, the law does not apply.
    """
    if hasattr(module, "read"):
        return None
    module, x = _prepared(module, batch)
    seen, query, key = _seen(module, x)
    weights = weights_of(seen, len(x), query.shape[1], key.shape[1])
    found = None if weights is None else scale_of(weights, seen, query, key)
    if found is None:
        return None
    factor, width = found
    off = abs(factor * math.sqrt(width) - 1)
    return off, 1e-6, f"the scores are q . k times {factor:.6g}, where 1 / sqrt({width}) is {width**-0.5:.6g}"


@law
def weights_sum_to_one_over_the_keys(module: Any, batch: AnyBatch) -> Measured | None:
    """The softmax inside a layer runs over the keys of each query."""
    if hasattr(module, "read") or hasattr(module, "attention_maps"):
        return None
    module, x = _prepared(module, batch)
    seen, query, key = _seen(module, x)
    weights = weights_of(seen, len(x), query.shape[1], key.shape[1])
    if weights is None:
        return None
    off = float((weights.sum(-1) - 1).abs().max())
    return off, 1e-6, f"{weights.shape[1]} heads; the sums over {weights.shape[-1]} keys are off by {off:.2g}"


@law
def every_head_sees_all_features(module: Any, batch: AnyBatch) -> Measured | None:
    """The weights of each head depend on every feature of the input: heads split the projections, not the input."""
    if hasattr(module, "read") or hasattr(module, "attention_maps") or not list(module.parameters()):
        return None
    module, x = _prepared(module, batch)
    healthy = weights_of(_seen(module, x)[0], len(x), x.shape[1], x.shape[1])
    if healthy is None or healthy.shape[1] < 2:
        return None
    blind = 0
    for feature in range(x.shape[-1]):
        other = x.clone()
        other[..., feature] += torch.randn(x.shape[:2], generator=seeded(feature)).to(x)
        weights = weights_of(_seen(module, other)[0], len(x), x.shape[1], x.shape[1])
        assert weights is not None
        blind += int(((weights - healthy).abs().amax((0, 2, 3)) <= TIGHT).sum())
    return blind, 0, f"of {healthy.shape[1]} heads and {x.shape[-1]} features {blind} pairs are blind"


@law
def masked_positions_change_nothing(module: Any, batch: AnyBatch) -> Measured | None:
    """Keys and values that are masked for all queries do not change a bit of the output, not even if they are NaN."""
    if not _is_layer(module):
        return None
    module, x = _prepared(module, batch)
    length = x.shape[1]
    mask = torch.ones(length, length, dtype=torch.bool)
    mask[:, length // 2] = mask[:, -1] = False
    poisoned = x.clone()
    poisoned[:, length // 2] = poisoned[:, -1] = torch.nan
    healthy, found = attend(module, x, x, x, mask), attend(module, x, poisoned, poisoned, mask)
    moved = int((healthy != found).any(-1).sum())
    return moved, 0, f"{moved} of {found[..., 0].numel()} outputs change when masked keys and values are NaN"


@law
def a_query_attends_to_what_its_mask_allows(module: Any, batch: AnyBatch) -> Measured | None:
    """Other values at masked positions do not change the output of a query; at positions it may attend to, they do."""
    if not _is_layer(module):
        return None
    module, x = _prepared(module, batch)
    length = x.shape[1]
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    healthy = attend(module, x, x, x, mask)
    leaks = ignored = 0
    for position in range(length):
        other = x.clone()
        other[:, position] = torch.randn(x[:, position].shape, generator=seeded(position)).to(x)
        change = (attend(module, x, other, other, mask) - healthy).abs().amax((0, 2))  # (T,)
        moved = ~(change <= TIGHT * (1 + healthy.abs().max()))  # NaN has moved, too
        leaks += int(moved[:position].sum())
        ignored += int((~moved[position:]).sum())
    detail = f"of {length * length} pairs {leaks} were attended to though masked and {ignored} were not though allowed"
    return leaks + ignored, 0, detail


@law
def masked_keys_take_no_share(module: Any, batch: AnyBatch) -> Measured | None:
    """Keys that are masked for all queries take no share of the softmax: the output is that without them."""
    if not _is_layer(module):
        return None
    module, x = _prepared(module, batch)
    length = x.shape[1]
    mask = torch.ones(length, length, dtype=torch.bool)
    mask[:, -2:] = False
    fewer = x[:, :-2]
    gap = distance(attend(module, x, x, x, mask), attend(module, x, fewer, fewer, mask[:, :-2]))
    return gap, TIGHT, f"with 2 of {length} keys masked the output is off by {gap:.2g} from that without them"


@law
def a_fully_masked_query_gets_nothing(module: Any, batch: AnyBatch) -> Measured | None:
    """With all keys masked the output is what zeros give: the same numbers for any query, and no NaN."""
    if not _is_layer(module):
        return None
    module, x = _prepared(module, batch)
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
    mask[1] = False
    zeros = torch.zeros_like(x)
    wanted = attend(module, zeros, zeros, zeros, torch.ones_like(mask))[:, 1]
    other = torch.randn(x.shape, generator=seeded(1)).to(x)
    constant = attend(module, other, other, other, mask)[:, 1]
    found = attend(module, x, x, x, mask)[:, 1]
    gap = distance(found, constant)
    # the projections of a layer may have biases, so zeros are compared only where it has none
    if not any("bias" in name for name, _ in module.named_parameters()):
        gap = max(gap, distance(found, wanted))
    return gap, 0.0, f"the output of a query with all keys masked; two inputs give outputs that differ by {gap:.2g}"


@law
def order_of_keys_does_not_matter(module: Any, batch: AnyBatch) -> Measured | None:
    """Attention is permutation equivariant: keys in another order change nothing, queries permute the outputs."""
    if not _is_layer(module):
        return None
    module, x = _prepared(module, batch)
    length = x.shape[1]
    mask = torch.rand(length, length, generator=seeded(2)) < 0.7
    mask.fill_diagonal_(True)
    order = torch.randperm(length, generator=seeded(3))
    healthy = attend(module, x, x, x, mask)
    keys = distance(attend(module, x, x[:, order], x[:, order], mask[:, order]), healthy)
    queries = distance(attend(module, x[:, order], x, x, mask[order]), healthy[:, order])
    return max(keys, queries), TIGHT, f"keys in another order move the output by {keys:.2g}, queries by {queries:.2g}"


@law
def weights_are_probabilities(module: Any, batch: AnyBatch) -> Measured | None:
    """Attention weights are not negative, sum to 1 over the keys, and are 0 where the mask is."""
    module, batch = doubled(_batch_first(module), first(batch, ROWS))
    with torch.no_grad():
        if hasattr(module, "attention_maps"):
            length = min(batch.x.shape[1], int(getattr(module, "length", batch.x.shape[1])))
            weights = module.attention_maps(batch.x[:, :length])
        elif hasattr(module, "weights") or isinstance(module, nn.MultiheadAttention):
            weights = _weights(module, batch.x, torch.ones(batch.x.shape[1], batch.x.shape[1], dtype=torch.bool).tril())
        else:
            return None
    sums = float((weights.sum(-1) - 1).abs().max())
    ahead = float(weights.triu(1).abs().max())
    below = float((-weights).clamp_min(0).max())
    worst = max(sums, ahead, below)
    return worst, TIGHT, f"sums are off by {sums:.2g}, the largest weight ahead is {ahead:.2g}, below 0 {below:.2g}"


@law
def the_last_query_attends_to_all_keys(module: Any, batch: AnyBatch) -> Measured | None:
    """The causal mask of a layer ends at the last key: one query after many keys attends to all of them."""
    if not _is_layer(module) or "causal" not in inspect.signature(module.forward).parameters:
        return None
    module, x = _prepared(module, batch)
    with torch.no_grad():
        last = module(x[:, -1:], x, x, causal=True)
        gap = distance(last, module(x[:, -1:], x, x))
        gap = max(gap, distance(module(x[:, -2:], x, x, causal=True)[:, 1:], last))
    return gap, TIGHT, f"the last query after {x.shape[1]} keys is off by {gap:.2g}"


@law
def the_future_changes_nothing(module: Any, batch: AnyBatch) -> Measured | None:
    """Under a causal mask NaN at a position changes no bit of the outputs before it, nor of a gradient of these."""
    if not _is_layer(module) or "causal" not in inspect.signature(module.forward).parameters:
        return None
    module, x = _prepared(module, batch)
    later = x.shape[1] // 2
    poisoned = x.clone()
    poisoned[:, later] = torch.nan
    poisoned[:, -1] = torch.inf
    healthy, found = (_causal_bits(module, x, like, later) for like in (torch.zeros_like(x), poisoned))
    other = [name for name, bits in healthy.items() if not torch.equal(bits, found[name])]
    detail = f"of {len(healthy)} outputs and gradients {len(other)} change with a future of NaN and infinities"
    return len(other), 0, f"{detail}: {', '.join(other)}" if other else detail


@law
def causal_attention_is_the_causal_mask(module: Any, batch: AnyBatch) -> Measured | None:
    """``causal=True`` gives what the lower triangular mask gives: a running sum is the masked quadratic form."""
    if not _is_layer(module) or "causal" not in inspect.signature(module.forward).parameters:
        return None
    module, x = _prepared(module, batch)
    x = torch.cat([x] * LONGER, 1)  # so that sums in chunks run over more than one of them
    with torch.no_grad():
        found = module(x, x, x, causal=True)
        gap = distance(found, attend(module, x, x, x, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()))
    return gap, TIGHT, f"{x.shape[1]} positions; causal attention is off by {gap:.2g} from that of the mask"


@law
def a_layer_reads_on_from_its_cache(module: Any, batch: AnyBatch) -> Measured | None:
    """A layer with ``new_cache(capacity)`` reads a sequence in parts as in one piece, with causal self-attention."""
    if not callable(getattr(module, "new_cache", None)):
        return None
    module, x = _prepared(module, batch)
    x = torch.cat([x] * 2, 1)
    with torch.no_grad():
        whole = module(x, causal=True)
        cache = module.new_cache(2)
        sizes = [2, 1, 3, *[1] * (x.shape[1] - 6)]
        parts = [module(part, causal=True, cache=cache) for part in x.split(sizes, 1)]
    gap = distance(torch.cat(parts, 1), whole)
    return gap, TIGHT, f"{x.shape[1]} positions in {len(sizes)} parts are off by {gap:.2g}"


@law
def cached_decoding_is_the_full_forward_pass(module: Any, batch: AnyBatch) -> Measured | None:
    """With a key-value cache, tokens get the logits that they get in one forward pass of the whole text."""
    if not hasattr(module, "read"):
        return None
    module, batch = doubled(module, first(batch, ROWS))
    text = torch.cat([batch.x] * 3, 1)
    worst, where = 0.0, 0
    with torch.no_grad():
        whole = module(text)
        state, position = None, 0
        for size in (2, 1, 3, *[1] * (text.shape[1] - 6)):
            logits, state = module.read(text[:, position : position + size], state)
            position += size
            gap = distance(logits[:, -1], whole[:, position - 1])
            if not gap <= worst:
                worst, where = gap, position
    return worst, TIGHT, f"a text of {text.shape[1]} tokens; the worst is off by {worst:.2g} after {where} tokens"


LAWS = (
    scores_are_divided_by_the_root_of_the_key_width,
    weights_sum_to_one_over_the_keys,
    every_head_sees_all_features,
    masked_positions_change_nothing,
    a_query_attends_to_what_its_mask_allows,
    masked_keys_take_no_share,
    a_fully_masked_query_gets_nothing,
    order_of_keys_does_not_matter,
    weights_are_probabilities,
    the_last_query_attends_to_all_keys,
    the_future_changes_nothing,
    causal_attention_is_the_causal_mask,
    a_layer_reads_on_from_its_cache,
    cached_decoding_is_the_full_forward_pass,
)


def check_attention(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of attention in a layer of queries, keys and values, or in a model of tokens."""
    if not (_takes_keys(module) or hasattr(module, "read") or called(module, NAME)):
        raise UsageError(
            "attention is a layer called as layer(query, key, value, mask), or as layer(x) if its name says that it "
            "attends, or a model with read(tokens, state); "
            f"{type(module).__name__} is neither"
        )
    return outcomes(LAWS, module, batch)


def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The output of a layer; torch's own takes the negated mask, and its weights are not computed."""
    with torch.no_grad():
        if isinstance(module, nn.MultiheadAttention):
            found: Tensor = module(query, key, value, attn_mask=~mask, need_weights=False)[0]
        else:
            found = module(query, key, value, mask)
    return found


def _causal_bits(module: Any, x: Tensor, future: Tensor, later: int) -> dict[str, Tensor]:
    """The outputs before position ``later`` and all gradients of their squares, where x ends with another future."""
    whole = torch.cat([x[:, :later], future[:, later:]], 1).requires_grad_()
    module.zero_grad()
    with torch.enable_grad():
        output = module(whole, whole, whole, causal=True)[:, :later]
        output.square().sum().backward()
    gradients = {f"gradient of {name}": p.grad for name, p in module.named_parameters() if p.grad is not None}
    inputs = torch.zeros_like(whole) if whole.grad is None else whole.grad
    return {"output": output.detach(), "gradient of the inputs": inputs, **gradients}


def _weights(module: Any, x: Tensor, mask: Tensor) -> Any:
    if isinstance(module, nn.MultiheadAttention):
        return module(x, x, x, attn_mask=~mask, average_attn_weights=False)[1]
    return module.weights(x, x, mask)


def _is_layer(module: Any) -> bool:
    return _takes_keys(module) and len(inspect.signature(module.forward).parameters) >= 4


def _takes_keys(module: nn.Module) -> bool:
    """Whether ``forward`` begins with queries, keys and values."""
    names = list(inspect.signature(module.forward).parameters)[:3]
    return len(names) == 3 and all(name[0] == letter for name, letter in zip(names, "qkv", strict=True))


def _seen(module: Any, x: Tensor) -> tuple[Seen, Tensor, Tensor]:
    """What a layer computes inside, and the queries and keys it got; without parameters, values of another width."""
    if isinstance(module, nn.MultiheadAttention):
        return Seen(module, lambda: module(x, x, x)), x, x
    if not _takes_keys(module):
        return Seen(module, lambda: module(x)), x, x
    value = x if list(module.parameters()) else torch.cat([x, x[..., :1]], -1)
    mask = [torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)] if _is_layer(module) else []
    return Seen(module, lambda: module(x, x, value, *mask)), x, x


def recognize_attention(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Sequences for a layer of queries, keys and values, or of one sequence whose name says that it attends."""
    if not is_plain(module):
        return None
    if _takes_keys(module):
        for x in given_or(batch, sequences(module)):
            if x.ndim == 3 and answer(module, x, x, x) is not None:
                return Batch(x)
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
            if x.ndim == 3 and answer(module, x, x, x, mask) is not None:
                return Batch(x)
        return None
    if not called(module, NAME):
        return None
    for x in given_or(batch, sequences(module)):
        if x.ndim == 3 and answer(module, x) is not None:
            seen, query, key = _seen(copy.deepcopy(module), x)
            if weights_of(seen, len(x), query.shape[1], key.shape[1]) is not None:
                return Batch(x)
    return None


def _batch_first(module: Any) -> Any:
    """The layer with examples first, as the laws call it; torch's own may be set to have positions first."""
    if isinstance(module, nn.MultiheadAttention):
        module.batch_first = True
    return module


def _prepared(module: Any, batch: AnyBatch) -> tuple[Any, Tensor]:
    """The layer and a few examples in double precision, with all parameters moved away from their initial values."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    module, batch = doubled(_batch_first(module), first(batch, ROWS))
    if batch.x.ndim != 3 or batch.x.shape[1] < 3:
        raise UsageError(f"attention is checked on examples (B, T, width) with T of 3 or more; got {batch.x.shape}")
    return module, batch.x
