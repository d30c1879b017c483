"""Weights and scores inside a layer of attention, and the scale of the products of queries and keys in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

SOFTMAX = ("aten::_softmax", "aten::_safe_softmax")
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::add", "aten::add_")
"""What projects: products with weights, and the sums with biases that may follow."""
EXACT = 1e-6
"""The largest share of the scores that products of queries and keys may leave unexplained."""


class Seen:
    """The attention weights and the linear projections of one call, as they went through torch."""

    def __init__(self, module: nn.Module, call: Callable[[], Any]) -> None:
        self.weights: list[Tensor] = []
        self.projections: list[Tensor] = []
        owned = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
        with sdpa_kernel(SDPBackend.MATH), _Watch(self, owned), torch.enable_grad():
            self.output = call()


class _Watch(TorchDispatchMode):
    def __init__(self, seen: Seen, owned: set[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen, self.owned = seen, owned

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name in SOFTMAX:
            self.seen.weights.append(output.detach())
        elif name in PRODUCTS:
            parts = [part for part in args if isinstance(part, Tensor)]
            if any(part.untyped_storage().data_ptr() in self.owned for part in parts):
                self.seen.projections.append(output.detach())
        return output


def weights_of(seen: Seen, batch: int, queries: int, keys: int) -> Tensor | None:
    """The attention weights, (B, heads, queries, keys), if a softmax of that shape was computed."""
    for weights in seen.weights:
        if weights.shape[-2:] == (queries, keys) and weights.shape[:-2].numel() % batch == 0:
            return weights.reshape(batch, -1, queries, keys)
    return None


def scale_of(weights: Tensor, seen: Seen, query: Tensor, key: Tensor) -> tuple[float, int] | None:
    """The factor of q . k in the scores, and the width of a head; None where the scores are no such products.

    The logarithms of the weights are regressed on the products of every two things that may be queries and keys: the
    inputs themselves, linear projections of them, and thirds and halves of these.
    """
    heads = weights.shape[1]
    allowed = weights > 1e-12
    log = _centered(weights.clamp_min(1e-300).log(), allowed)
    queries = list(_heads(seen, query, heads))
    keys = list(_heads(seen, key, heads))
    for q in queries:
        for k in keys:
            if q.shape[-1] != k.shape[-1]:
                continue
            products = _centered(q @ k.mT, allowed)
            size = products.square().sum()
            if size == 0:
                continue
            factor = (log * products).sum() / size
            if float((log - factor * products).norm()) <= EXACT * float(log.norm()):
                return float(factor), q.shape[-1]
    return None


def _centered(values: Tensor, allowed: Tensor) -> Tensor:
    """Values less their mean over the keys that a query may attend to, which a softmax does not see."""
    values = values.masked_fill(~allowed, 0)
    mean = values.sum(-1, keepdim=True) / allowed.sum(-1, keepdim=True).clamp_min(1)
    return (values - mean).masked_fill(~allowed, 0)


def _heads(seen: Seen, x: Tensor, heads: int) -> Iterator[Tensor]:
    """What may be the queries or the keys of all heads, (B, heads, T, d)."""
    for whole in _candidates(seen, x):
        for parts in (1, 3, 2):
            width = whole.shape[-1] // parts
            if whole.shape[-1] % parts or width % heads:
                continue
            for part in whole.split(width, -1):
                yield part.unflatten(-1, (heads, -1)).transpose(1, 2)
            if parts > 1:  # the parts of each head next to each other
                yield from whole.unflatten(-1, (heads, parts, -1)).permute(3, 0, 2, 1, 4)


def _candidates(seen: Seen, x: Tensor) -> Iterator[Tensor]:
    yield x
    rows = x.shape[:2]
    for output in seen.projections:
        if output.ndim == 2 and len(output) == math.prod(rows):
            yield output.reshape(*rows, -1)
            yield output.reshape(rows[1], rows[0], -1).transpose(0, 1)  # positions first
        elif output.ndim == 2 and len(output) == rows[1] and rows[0] == 1:
            yield output.unsqueeze(0)
        elif output.shape[:2] == rows and output.ndim == 3:
            yield output
        elif output.shape[:2] == rows[::-1] and output.ndim == 3:
            yield output.transpose(0, 1)
        elif output.ndim == 3 and output.shape[1] == math.prod(rows):  # one matrix for each head
            yield output.transpose(0, 1).reshape(*rows, -1)
