r"""The laws of dropout: layers that are called as ``layer(x)`` and drop values at random in training.

Whether kept values are divided by the probability to keep them in training (inverted dropout), or all are multiplied by
it in evaluation (the original form), the mean output in training is the output in evaluation.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from scipy import stats
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import accepted, answer, attribute, called, given_or, is_affine, is_plain, vectors

RATES = ("p", "rate", "drop_prob", "dropout", "drop_rate")
"""The attributes in which layers keep the probability to drop a value."""
KEEPS = ("keep_prob", "keep", "keep_rate")
ODD = 0.3
"""A probability at which dropping and keeping differ, unlike at 1/2."""
DRAWS = 4000
SIGMAS = 6.0
RARE = 1e-6
"""The significance level of a statistical test: a statistic that is less probable breaks the law."""


@law
def training_keeps_the_mean_of_evaluation(module: Any, batch: Batch) -> Measured:
    """The mean output over many draws in training is the output in evaluation, whatever is multiplied where."""
    x, drawn = _drawn(module, batch)
    with torch.no_grad():
        wanted = module.eval()(x[:1])[0]
    error = drawn.std(0) / math.sqrt(len(drawn)) + 1e-6 * (1 + wanted.abs().max())
    off = float(((drawn.mean(0) - wanted).abs() / error).max())
    return off, SIGMAS, f"{len(drawn)} draws; the worst mean is {off:.2f} standard errors from the output in evaluation"


@law
def the_share_of_zeros_is_the_probability(module: Any, batch: Batch) -> Measured | None:
    """Values are dropped with the probability that the layer states, and not kept with it."""
    rate = _rate(module)
    if rate is None or list(module.parameters()):
        return None
    _, drawn = _drawn(module, batch)
    zeros = int((drawn.flatten(1)[:, 0] == 0).sum())
    low, high = (float(stats.binom.ppf(level, len(drawn), rate)) for level in (RARE, 1 - RARE))
    off = max(low - zeros, zeros - high, 0.0)
    return off, 0, f"{zeros} of {len(drawn)} draws are 0, where the probability to drop a value is {rate:g}"


@law
def kept_values_are_scaled_alike(module: Any, batch: Batch) -> Measured | None:
    """What is kept is the input times one number: dropout removes values and does not move others."""
    if list(module.parameters()):
        return None
    x, drawn = _drawn(module, batch)
    ratio = (drawn / x)[drawn != 0]
    spread = float(ratio.max() - ratio.min()) if len(ratio) else 0.0
    return spread, 1e-5, f"{len(ratio)} values are kept; the factors differ by {spread:.2g}"


@law
def evaluation_draws_nothing(module: Any, batch: Batch) -> Measured:
    """In eval mode the same input gives the same output."""
    module.eval()
    with torch.no_grad():
        torch.manual_seed(1)
        once = module(batch.x.clone())
        torch.manual_seed(2)
        moved = float((module(batch.x.clone()) - once).abs().max())
    return moved, 0, f"two passes in eval mode differ by {moved:.2g}"


LAWS = (
    training_keeps_the_mean_of_evaluation,
    the_share_of_zeros_is_the_probability,
    kept_values_are_scaled_alike,
    evaluation_draws_nothing,
)


def check_dropout(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of dropout in any layer of which one input is dropped at random in training."""
    if not isinstance(answer(module, batch.x, training=True), Tensor):
        raise UsageError(f"a dropout layer gives a tensor for x of {tuple(batch.x.shape)}")
    return outcomes(LAWS, module, batch)


def recognize_dropout(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Examples for an affine layer that is called dropout, or that has such a probability and no part inside."""
    rate = attribute(module, *RATES, *KEEPS)
    evidence = called(module, "[Dd]rop(out|path|connect|block)?[0-9]?d?") or (
        isinstance(rate, float) and not list(module.children())
    )
    if not is_plain(module) or not evidence:
        return None
    typed = isinstance(module, nn.modules.dropout._DropoutNd)
    _set_rate(module := copy.deepcopy(module), ODD)
    x = accepted(
        module, given_or(batch, vectors(module)), lambda x, _: _is_random(module, x) and (typed or is_affine(module, x))
    )
    return None if x is None else Batch(x)


def _is_random(module: nn.Module, x: Tensor) -> bool:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outputs = [answer(module, x, training=True) for _ in range(4)]
    return any(not torch.equal(output, outputs[0]) for output in outputs)


def _set_rate(module: nn.Module, rate: float) -> None:
    """Give the layer another probability to drop a value, if it states one."""
    for names, value in ((RATES, rate), (KEEPS, 1 - rate)):
        for name in names:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, value)


def _rate(module: nn.Module) -> float | None:
    rate, keep = attribute(module, *RATES), attribute(module, *KEEPS)
    if not isinstance(rate, float) and not isinstance(keep, float):
        return None
    return ODD


def _drawn(module: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """One example, repeated, and the outputs in training of all its copies, (draws, ...)."""
    _set_rate(module, ODD)
    x = (batch.x[:1].abs() + 0.5).repeat(DRAWS, *[1] * (batch.x.ndim - 1))
    with torch.no_grad():
        return x, module.train()(x.clone())
