# ruff: noqa: RUF001 (the signs of mathematics are meant)
"""The backward rule (vector-Jacobian product) of each operation, and the rule with an edge's own numbers in it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from deepcanon.microscopy.compute_graph import ComputeGraph, Edge
from deepcanon.microscopy.tape import Record
from deepcanon.microscopy.verdict import Array, inner, moved, typical

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TERMS = 4
"""How many terms of a sum are written out."""

RULES: dict[str, tuple[str, ...]] = {
    "linear": ("y = a bᵀ + c", "δa = δy b", "δb = δyᵀ a", "δc = Σ δy over the examples"),
    "matmul": ("y = a b", "δa = δy bᵀ", "δb = aᵀ δy"),
    "bmm": ("y = a b", "δa = δy bᵀ", "δb = aᵀ δy"),
    "mm": ("y = a b", "δa = δy bᵀ", "δb = aᵀ δy"),
    "addmm": ("y = a + b c", "δa = δy", "δb = δy cᵀ", "δc = bᵀ δy"),
    "dot": ("y = Σ a b", "δa = δy b", "δb = δy a"),
    "add": ("y = a + b", "δa = δy", "δb = δy"),
    "sub": ("y = a − b", "δa = δy", "δb = −δy"),
    "rsub": ("y = b − a", "δa = −δy", "δb = δy"),
    "mul": ("y = a · b", "δa = δy · b", "δb = δy · a"),
    "div": ("y = a / b", "δa = δy / b", "δb = −δy · a / b²"),
    "neg": ("y = −a", "δa = −δy"),
    "pow": ("y = a^p", "δa = δy · p a^(p−1)", "δp = δy · y log a"),
    "square": ("y = a²", "δa = δy · 2a"),
    "sqrt": ("y = √a", "δa = δy / (2y)"),
    "rsqrt": ("y = 1/√a", "δa = −δy · y³ / 2"),
    "reciprocal": ("y = 1/a", "δa = −δy · y²"),
    "exp": ("y = eᵃ", "δa = δy · y"),
    "expm1": ("y = eᵃ − 1", "δa = δy · (y + 1)"),
    "log": ("y = log a", "δa = δy / a"),
    "log1p": ("y = log(1 + a)", "δa = δy / (1 + a)"),
    "sin": ("y = sin a", "δa = δy · cos a"),
    "cos": ("y = cos a", "δa = −δy · sin a"),
    "abs": ("y = |a|", "δa = δy · sign a"),
    "tanh": ("y = tanh a", "δa = δy · (1 − y²)"),
    "sigmoid": ("y = 1/(1 + e⁻ᵃ)", "δa = δy · y (1 − y)"),
    "relu": ("y = max(a, 0)", "δa = δy where a > 0, else 0"),
    "leaky_relu": ("y = max(a, s a)", "δa = δy where a > 0, else s δy"),
    "elu": ("y = a where a > 0, else eᵃ − 1", "δa = δy where a > 0, else δy · eᵃ"),
    "silu": ("y = a σ(a)", "δa = δy · σ(a) (1 + a (1 − σ(a)))"),
    "gelu": ("y = a Φ(a)", "δa = δy · (Φ(a) + a φ(a))"),
    "softplus": ("y = log(1 + eᵃ)", "δa = δy · σ(a)"),
    "logsigmoid": ("y = log σ(a)", "δa = δy · (1 − σ(a))"),
    "erf": ("y = erf a", "δa = δy · 2 e^(−a²) / √π"),
    "softmax": ("yᵢ = eᵃⁱ / Σ eᵃ", "δa = y · (δy − Σ y δy)"),
    "log_softmax": ("yᵢ = aᵢ − log Σ eᵃ", "δa = δy − eʸ · Σ δy"),
    "logsumexp": ("y = log Σ eᵃ", "δa = δy · softmax(a)"),
    "sum": ("y = Σ a", "δa = δy for every a"),
    "mean": ("y = Σ a / n", "δa = δy / n for every a"),
    "prod": ("y = Π a", "δaᵢ = δy · y / aᵢ"),
    "cumsum": ("yᵢ = a₁ + … + aᵢ", "δaᵢ = δyᵢ + δyᵢ₊₁ + …"),
    "max": ("y = max a", "δa = δy at the largest, else 0"),
    "min": ("y = min a", "δa = δy at the smallest, else 0"),
    "maximum": ("y = max(a, b)", "δa = δy where a > b, else 0", "δb = δy where b > a, else 0"),
    "clamp": ("y = a, kept within bounds", "δa = δy within the bounds, else 0"),
    "where": ("y = b where a, else c", "", "δb = δy where a, else 0", "δc = δy where not a, else 0"),
    "masked_fill": ("y = a, but the given value where b", "δa = δy where not b, else 0"),
    "cross_entropy_loss": ("y = mean over examples of −log softmax(a)[b]", "δa = δy · (softmax(a) − onehot(b)) / n"),
    "nll_loss": ("y = mean over examples of −a[b]", "δa = −δy · onehot(b) / n"),
    "mse_loss": ("y = mean (a − b)²", "δa = δy · 2 (a − b) / n", "δb = −δy · 2 (a − b) / n"),
    "binary_cross_entropy_with_logits": ("y = −b log σ(a) − (1 − b) log(1 − σ(a))", "δa = δy · (σ(a) − b)",
                                         "δb = −δy · a"),
    "layer_norm": ("y = b · x̂ + c, x̂ = (a − mean) / std", "δa = (g − mean g − x̂ mean(g x̂)) / std, g = b δy",
                   "δb = Σ δy x̂", "δc = Σ δy"),
    "batch_norm": ("y = x̂ · weight + bias, x̂ = (a − mean) / std of the batch",),
    "embedding": ("y = b[a]", "", "δb[i] = Σ δy over the positions where a = i"),
    "dropout": ("y = a · mask / (1 − p)", "δa = δy · mask / (1 − p)"),
    "conv1d": ("y = a ⋆ b + c", "δa = δy full-convolved with b", "δb = a ⋆ δy", "δc = Σ δy over positions, examples"),
    "conv2d": ("y = a ⋆ b + c", "δa = δy full-convolved with b", "δb = a ⋆ δy", "δc = Σ δy over pixels, examples"),
    "max_pool2d": ("y = the largest a of each window", "δa = δy at the largest, else 0"),
    "avg_pool2d": ("y = the mean a of each window", "δa = δy / n for each of the window"),
    "scaled_dot_product_attention": ("y = softmax(a bᵀ / √d) c", "δa = δs b / √d, s the scores",
                                     "δb = δsᵀ a / √d", "δc = softmax(a bᵀ / √d)ᵀ δy"),
}  # fmt: skip
"""By name of the operation: its value y, then the delta of each of its tensors, which are called a, b, c ..."""

MOVES = {
    "view", "reshape", "flatten", "unflatten", "transpose", "permute", "t", "T", "mT", "squeeze", "unsqueeze", "expand",
    "contiguous", "clone", "getitem", "chunk", "split", "unbind", "stack", "cat", "narrow", "select", "movedim", "to",
    "double", "float", "expand_as", "view_as", "broadcast_tensors", "alias", "index_select", "gather", "roll", "flip",
}  # fmt: skip
"""Operations that only move numbers."""

EACH = {
    "add", "sub", "rsub", "mul", "div", "neg", "pow", "square", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log",
    "log1p", "sin", "cos", "abs", "tanh", "sigmoid", "relu", "leaky_relu", "elu", "silu", "gelu", "softplus",
    "logsigmoid", "erf", "maximum", "minimum", "clamp", "where",
}  # fmt: skip
"""Elementwise operations, for which one entry shows all."""


def rules(record: Record, slot: int) -> tuple[str, str]:
    """The formulas of the operation's value and of the delta of one of its inputs."""
    op = _plain(record.op)
    if op in MOVES:
        return "y = a, moved to other positions", "δ goes back to the position its number came from"
    known = RULES.get(op, ())
    letter = LETTERS[slot] if slot < len(LETTERS) else f"input {slot + 1}"
    forward = known[0] if known else f"y = {record.op}({', '.join(LETTERS[: len(record.inputs)])})"
    backward = known[slot + 1] if slot + 1 < len(known) else ""
    return forward, backward or f"δ{letter} = (∂y/∂{letter})ᵀ δy"


def filled(graph: ComputeGraph, edge: Edge) -> dict[str, Any]:
    """The two rules with numbers: the value of one output, and the largest delta as the sum of its terms."""
    record = graph.tape.records[edge.target]
    forward, backward = rules(record, edge.slot)
    found: dict[str, Any] = {"forward": forward, "backward": backward, "call": record.call}
    if (example := _forward(graph, record)) is not None:
        found["value"] = example
    if edge.delta is not None and edge.delta.size and np.isfinite(edge.delta).all():
        found["delta"] = _backward(graph, record, edge, edge.delta)
    return found


def _forward(graph: ComputeGraph, record: Record) -> str | None:
    """One entry of an elementwise operation, as ``tanh(0.31) = 0.3004``."""
    if _plain(record.op) not in EACH or len(record.values) != 1 or not record.values[0].size:
        return None
    y = record.values[0]
    entry = np.unravel_index(int(np.abs(y).argmax()), y.shape)
    numbers = {
        LETTERS[slot]: _short(np.broadcast_to(value, y.shape)[entry])
        for slot, value in enumerate(graph.tape.inputs(record))
    }
    call = re.sub(r"\b([a-z])\b(?!\()", lambda match: numbers.get(match[1], match[1]), record.call)
    return f"{call} = {_short(y[entry])}"


def _backward(graph: ComputeGraph, record: Record, edge: Edge, delta: Array) -> dict[str, Any]:
    """The largest delta of the edge as a sum: each output's derivative, by finite differences, times its delta."""
    assert record.operation is not None  # else it would have no delta
    flat = int(np.abs(delta).argmax())
    entry = [int(i) for i in np.unravel_index(flat, delta.shape)]
    inputs = graph.tape.inputs(record)
    line = np.zeros(delta.shape, edge.value.dtype)
    line.reshape(-1)[flat] = 1
    step = 1e-6 * (typical(edge.value) or 1.0)
    sides = [
        record.operation.run([moved(x, side * step, line) if i == edge.slot else x for i, x in enumerate(inputs)])
        for side in (1, -1)
    ]
    terms: list[tuple[float, float]] = []
    for after, before, seed in zip(*sides, graph.nodes[edge.target].deltas, strict=True):
        if seed is not None:
            finite = np.isfinite(after) & np.isfinite(before)  # a masked score, -inf, stays what it is
            slopes = np.where(finite, after, 0).reshape(-1) - np.where(finite, before, 0).reshape(-1)
            slopes = slopes / (2 * step)
            weights = seed.reshape(-1)
            used = np.flatnonzero(np.abs(slopes * weights) > 1e-12)
            terms += [(float(np.real(slopes[i])), float(np.real(weights[i]))) for i in used]
    terms.sort(key=lambda term: -abs(term[0] * term[1]))
    return {
        "entry": entry,
        "terms": [[slope, weight] for slope, weight in terms[:TERMS]],
        "more": max(0, len(terms) - TERMS),
        "sum": sum(slope * weight for slope, weight in terms),
        "given": float(np.real(inner(line, delta))),
    }


SAME = {
    "truediv": "div", "true_divide": "div", "itruediv": "div", "multiply": "mul", "imul": "mul", "iadd": "add",
    "subtract": "sub", "isub": "sub", "special_erf": "erf", "clip": "clamp", "clamp_min": "clamp",
    "clamp_max": "clamp", "divide": "div", "negative": "neg", "power": "pow", "absolute": "abs",
}  # fmt: skip


def _plain(op: str) -> str:
    """The name in the table: without the underscore of an in-place operation, and one name for synonyms."""
    return SAME.get(op.rstrip("_"), op.rstrip("_"))


def _short(number: Any) -> str:
    return f"{number:.4g}" if np.isrealobj(number) and not isinstance(number, np.bool_) else str(number)
