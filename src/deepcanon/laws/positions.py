r"""The laws of positions: encodings that are added, rotations of queries and keys, and biases of attention scores.

An encoding is called with sequences (B, T, width) and gives them with the encoding, or the encoding alone, (T, width).
That of Vaswani et al. (2017) has pairs :math:`\sin(n \omega_j), \cos(n \omega_j)` with
:math:`\omega_j = 10000^{-2j/d}` from :math:`j = 0`. A relative bias is called with the numbers of queries and keys.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import accepted, answer, called, given_or, is_plain, widths
from deepcanon.laws.probe import seeded

LENGTH, WIDE = 24, 32
SLOW = 0.02
"""Slower frequencies hardly move within the positions that are looked at."""
BOUND = 1e-4
"""Encodings are often kept in single precision."""
NAME = "[Pp]osition(al|s)?|PositionalEncoding|PositionalEmbedding|[Ss]inusoid(al|s)?|[Rr]otary|RoPE|[Rr]elative(Bias)?"


@law
def products_depend_on_the_distance_only(module: Any, batch: Batch) -> Measured | None:
    """Of sinusoids r_n . r_m is a function of n - m; so it is of a rotated query at n and a rotated key at m."""
    x = batch.x[:1].double()
    if _is_rotation(module, x):
        query, key = (torch.randn(x.shape[-1], generator=seeded(i)).double() for i in (1, 2))
        left, right = (_output(module, each.expand_as(x)) for each in (query, key))
    elif (encoding := _fixed(module, x)) is not None:
        left = right = encoding
    else:
        return None
    products = left @ right.T
    gap = _toeplitz_gap(products)
    size = float(products.abs().max())
    return gap / size, BOUND, f"products of {len(products)} positions; at equal distances they differ by {gap:.2g}"


@law
def sines_and_cosines_share_their_frequencies(module: Any, batch: Batch) -> Measured | None:
    """Of sinusoids each frequency belongs to a sine and a cosine, so that one matrix moves all positions by a step."""
    encoding = _fixed(module, batch.x[:1].double())
    if encoding is None:
        return None
    found = _frequencies(encoding).sort(descending=True).values
    pairs = found[: 2 * (len(found) // 2)].view(-1, 2)
    pairs = pairs[pairs[:, 0] > SLOW]
    gap = float(((pairs[:, 0] - pairs[:, 1]).abs() / pairs[:, 0]).max()) if len(pairs) else 0.0
    return gap, 0.02, f"{len(found)} values; the frequencies of the worst pair differ by {gap:.1%}"


@law
def the_first_frequency_is_one(module: Any, batch: Batch) -> Measured | None:
    """Of sinusoids the fastest turns by one radian from position to position: the exponents begin with 0."""
    encoding = _fixed(module, batch.x[:1].double())
    if encoding is None:
        return None
    fastest = float(_frequencies(encoding).max())
    return abs(fastest - 1), 1e-3, f"the fastest value turns by {fastest:.4g} radian per position"


@law
def frequencies_fall_geometrically(module: Any, batch: Batch) -> Measured | None:
    """Of sinusoids each frequency is the same fraction of the one before."""
    encoding = _fixed(module, batch.x[:1].double())
    if encoding is None:
        return None
    found = _frequencies(encoding).sort(descending=True).values[::2]
    found = found[found > SLOW]
    if len(found) < 3:
        return None
    steps = found.log().diff()
    gap = float((steps - steps.mean()).abs().max())
    return gap, 0.02, f"{len(found)} frequencies; the worst ratio of two is {gap:.1%} from the mean ratio"


@law
def an_encoding_does_not_depend_on_the_values(module: Any, batch: Batch) -> Measured | None:
    """What is added at a position is the same for all inputs, and differs between positions."""
    x = batch.x[:1].double()
    if _is_rotation(module, x) or _is_bias(module):
        return None
    other = torch.randn(x.shape, generator=seeded(3)).double()
    module.double().eval()
    with torch.no_grad():
        zero, first, second = (module(each) for each in (torch.zeros_like(x), x, other))
    if first.shape != x.shape or torch.equal(first, second):
        changed = float((first - second).abs().max())
        encoding = first.reshape(-1, first.shape[-1])
    else:
        scale = ((first - zero) * x).sum() / x.square().sum()  # some multiply the input by the root of its width
        changed = float((first - second - scale * (x - other)).abs().max())
        encoding = zero[0]
    same = len(encoding) - len(encoding.unique(dim=0))
    return changed + same, BOUND, f"another input changes it by {changed:.2g}; {same} positions repeat another"


@law
def a_rotation_keeps_lengths(module: Any, batch: Batch) -> Measured | None:
    """A rotated query is as long as the query, and the first position is not rotated."""
    x = batch.x[:1].double()
    if not _is_rotation(module, x):
        return None
    rotated = _output(module, x)
    length = float((rotated.norm(dim=-1) - x[0].norm(dim=-1)).abs().max())
    first = float((rotated[0] - x[0, 0]).abs().max())
    return max(length, first), BOUND, f"lengths change by {length:.2g}, the first position by {first:.2g}"


@law
def a_bias_depends_on_the_distance_only(module: Any, batch: Batch) -> Measured | None:
    """The bias of a query and a key is a function of j - i for each head, and the last query stands at the last key."""
    if not _is_bias(module):
        return None
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=seeded(4)))
        bias = module(LENGTH, LENGTH)
        late = answer(module, 3, LENGTH)
    bias = bias.reshape(-1, *bias.shape[-2:])
    gap = max(_toeplitz_gap(head) for head in bias)
    last = 0.0 if late is None else float((late.reshape(-1, *late.shape[-2:])[:, -1] - bias[:, -1]).abs().max())
    return max(gap, last), BOUND, f"at equal distances biases differ by {gap:.2g}; after a cache by {last:.2g}"


LAWS = (
    products_depend_on_the_distance_only,
    sines_and_cosines_share_their_frequencies,
    the_first_frequency_is_one,
    frequencies_fall_geometrically,
    an_encoding_does_not_depend_on_the_values,
    a_rotation_keeps_lengths,
    a_bias_depends_on_the_distance_only,
)


def check_positions(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of positions in an encoding of sequences, a rotation, or a relative bias."""
    if not _is_bias(module) and not isinstance(answer(module, batch.x), Tensor):
        raise UsageError(f"a position encoding gives a tensor for sequences (B, T, width), {tuple(batch.x.shape)}")
    return outcomes(LAWS, module, batch)


def recognize_positions(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Examples for a layer whose name says that it encodes positions."""
    if (
        not is_plain(module)
        or not called(module, NAME)
        or any(isinstance(part, nn.Linear) for part in module.modules())
    ):
        return None
    if _is_bias(module):
        return batch or Batch(torch.zeros(1, LENGTH, 2))
    tried = [torch.randn(2, LENGTH, width, generator=seeded(0)) for width in (*widths(module)[:-1], WIDE, 8)]
    x = accepted(module, given_or(batch, tried), lambda x, output: output.shape[-1] == x.shape[-1])
    return None if x is None else Batch(x)


def _is_bias(module: nn.Module) -> bool:
    """Whether the module is called with numbers of queries and keys."""
    output = answer(module, 4, 4)
    return isinstance(output, Tensor) and output.shape[-2:] == (4, 4)


def _output(module: Any, x: Tensor) -> Tensor:
    """The output for one sequence, (T, width)."""
    with torch.no_grad():
        output: Tensor = module.double().eval()(x)
    return output.reshape(-1, output.shape[-1])[: x.shape[1]].double()


def _is_rotation(module: Any, x: Tensor) -> bool:
    """Whether the output is linear in the input, other than by one factor."""
    if _is_bias(module):
        return False
    output, zero = _output(module, x), _output(module, torch.zeros_like(x))
    if float(zero.abs().max()) > 1e-9 or output.shape != x.shape[1:]:
        return False
    return float((_output(module, 2 * x) - 2 * output).abs().max()) < 1e-6 and not torch.allclose(output, x[0])


def _fixed(module: Any, x: Tensor) -> Tensor | None:
    """The encoding, (T, width), of a module that adds one that is not learned."""
    if _is_bias(module) or list(module.parameters()) or _is_rotation(module, x):
        return None
    return _output(module, torch.zeros_like(x))


def _frequencies(encoding: Tensor) -> Tensor:
    """The frequency of every column: r(n + 1) + r(n - 1) = 2 cos(omega) r(n) of a sinusoid, whatever its phase."""
    middle, ends = encoding[1:-1], encoding[2:] + encoding[:-2]
    ratio = (ends * middle).sum(0) / middle.square().sum(0).clamp_min(1e-30)
    return (ratio / 2).clamp(-1, 1).arccos().clamp_min(1e-6 / math.pi)


def _toeplitz_gap(matrix: Tensor) -> float:
    """The largest difference of two entries on the same diagonal."""
    return float((matrix[1:, 1:] - matrix[:-1, :-1]).abs().max())
