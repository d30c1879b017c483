"""The laws of discrete distributions: modules whose ``log_prob`` gives logarithms of probabilities.

With few enough inputs all of them are enumerated: their probabilities must sum to 1 and be those by which ``sample``
draws. The values of an input are 0 and 1 where the module's ``support`` is binary, of gray levels all ``levels`` of
them, else those that occur in the examples. A conditional module is conditioned on what the examples give; all inputs
together, on what the first one gives. Spins are -1 and 1.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from scipy import stats
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, Model, UsageError, conditioned
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import TIGHT, distance, doubled, first, repeated, seeded, total
from deepcanon.laws.slope import slopes

MOST = 2**14
"""How many inputs are enumerated at most."""
DRAWS = 4000
RARE = 1e-6
"""The significance level: how improbable a statistic must be before a statistical law is taken to be broken."""
FEW = 5.0
"""Inputs that are expected less often than this are counted together."""


@law
def probabilities_sum_to_one(module: Any, batch: Batch) -> Measured | None:
    """The probabilities of all inputs sum to 1; of a lower bound, to no more."""
    kind = _likelihood_kind(module)
    module, batch = doubled(stirred(module), batch)
    x = states(module, batch)
    if x is None or kind not in ("exact", "lower bound"):
        return None
    with torch.no_grad():
        mass = float(conditioned(module, first(batch, 1)).log_prob(x).double().logsumexp(0).exp())
    over = mass - 1 if kind == "lower bound" else abs(mass - 1)
    return over, 1e-6, f"the probabilities of all {len(x)} inputs sum to {mass:.9g}"


@law
def log_probabilities_are_not_positive(module: Any, batch: Batch) -> Measured | None:
    """No input is more probable than 1, and all log-probabilities are numbers."""
    if _likelihood_kind(module) not in ("exact", "lower bound"):
        return None
    module, batch = doubled(stirred(module), batch)
    with torch.no_grad():
        found = conditioned(module, batch).log_prob(batch.x)
    if tuple(found.shape) != (len(batch.x),):
        return 1, 0, f"log_prob gives {tuple(found.shape)} for {len(batch.x)} examples"
    highest = math.inf if bool(found.isnan().any()) else float(found.max())
    return highest, TIGHT, f"the highest of {len(found)} log-probabilities is {highest:.6g}"


@law
def samples_follow_the_probabilities(module: Any, batch: Batch) -> Measured | None:
    """Inputs drawn by ``sample`` occur as often as ``log_prob`` says (chi-square)."""
    if not hasattr(module, "sample") or _likelihood_kind(module) != "exact":
        return None
    module, batch = doubled(stirred(module), batch)
    x = states(module, batch)
    if x is None:
        return None
    module = conditioned(module, first(batch, 1))
    with torch.no_grad():
        expected = DRAWS * module.log_prob(x).double().exp()
        drawn = module.sample(DRAWS, generator=seeded(0))
    return chi_square(drawn, x, expected)


@law
def duplicates_change_nothing(module: Any, batch: Batch) -> Measured | None:
    """An example has the same probability alone, in a batch, twice over, and in another order."""
    if _likelihood_kind(module) not in ("exact", "unnormalized"):
        return None
    module, batch = doubled(stirred(module), batch)
    order = torch.randperm(len(batch), generator=seeded(0))
    few = [batch.select(torch.tensor([i])) for i in range(min(4, len(batch)))]

    def asked(part: Batch) -> Tensor:
        found: Tensor = conditioned(module, part).log_prob(part.x)
        return found

    with torch.no_grad():
        together, twice, shuffled = (asked(part) for part in (batch, repeated(batch, 2), batch.select(order)))
        alone = torch.cat([asked(part) for part in few])
    gaps = {
        "twice": distance(twice, torch.cat([together, together])),
        "in another order": distance(shuffled, together[order]),
        "alone": distance(alone, together[: len(alone)]),
    }
    worst = max(gaps, key=lambda how: math.inf if math.isnan(gaps[how]) else gaps[how])
    return gaps[worst], TIGHT, f"log_prob moves most when an example comes {worst}: by {gaps[worst]:.2g}"


@law
def loss_is_the_negative_log_likelihood(module: Any, batch: Batch) -> Measured | None:
    """The loss, unless it is a surrogate, or one of its terms is the mean negative log-likelihood."""
    if not hasattr(module, "loss") or getattr(module, "surrogate", False) or _likelihood_kind(module) != "exact":
        return None
    module, batch = doubled(stirred(module), batch)
    with torch.no_grad():
        terms, wanted = module.loss(batch), -float(conditioned(module, batch).log_prob(batch.x).mean())
    candidates = [float(total(terms)), *(float(value) for value in terms.values())]
    nearest = min(candidates, key=lambda value: abs(value - wanted))
    return abs(nearest - wanted), 1e-6 * (1 + abs(wanted)), f"the loss is {nearest:.6g}, -log p is {wanted:.6g}"


@law
def gradient_is_the_slope(module: Any, batch: Batch) -> Measured | None:
    """The gradient of an exact log-probability agrees with central differences along random lines."""
    if _likelihood_kind(module) != "exact":
        return None
    module, few = doubled(stirred(module), first(batch, 8))
    return slopes(module, lambda: conditioned(module, few).log_prob(few.x).mean())


@law
def other_values_are_refused(module: Any, batch: Batch) -> Measured | None:
    """A model of zeros and ones, of spins, or of other whole numbers, gives no probability to values between them."""
    if not isinstance(module, Model) or module.support not in ("binary", "spins", "categorical", "gray levels"):
        return None
    try:
        with torch.no_grad():
            conditioned(module.eval(), batch).log_prob(torch.full_like(batch.x, 0.5, dtype=torch.get_default_dtype()))
    except UsageError as refusal:
        return 0, 0, f"refused: {refusal}"
    return 1, 0, "an example of halves got a probability"


LAWS = (
    probabilities_sum_to_one,
    log_probabilities_are_not_positive,
    samples_follow_the_probabilities,
    duplicates_change_nothing,
    loss_is_the_negative_log_likelihood,
    gradient_is_the_slope,
    other_values_are_refused,
)


def check_discrete(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of discrete distributions in any module with ``log_prob``."""
    if not callable(getattr(module, "log_prob", None)):
        raise UsageError("a discrete distribution has log_prob, which is missing")
    return outcomes(LAWS, module, batch)


def states(module: Any, batch: AnyBatch) -> Tensor | None:
    """All inputs, in the shape and type of the examples; None where there are too many.

    An entry that is missing, NaN, is not a value.
    """
    support = getattr(module, "support", "")
    counts = {"binary": 2, "gray levels": getattr(module, "levels", 0)}
    known = torch.tensor([-1, 1]) if support == "spins" else torch.arange(counts.get(support, 0))
    values = known if len(known) else batch.x[~batch.x.isnan()].unique().cpu()
    size = batch.x[0].numel()
    if support == "real" or len(values) < 2 or size * math.log2(len(values)) > math.log2(MOST):
        return None
    every = torch.cartesian_prod(*[values] * size).reshape(-1, *batch.x.shape[1:])
    return every.to(batch.x.dtype)


def chi_square(drawn: Tensor, x: Tensor, expected: Tensor) -> Measured:
    """The chi-square statistic of the counts of all inputs ``x`` among those ``drawn``, given the ``expected`` ones."""
    index = {tuple(row): number for number, row in enumerate(x.flatten(1).tolist())}
    rows = [index.get(tuple(row)) for row in drawn.to(x.dtype).flatten(1).tolist()]
    known = torch.tensor([row for row in rows if row is not None], dtype=torch.long)
    if len(known) < len(drawn):
        return 1, 0, f"{len(drawn) - len(known)} of {len(drawn)} samples are not inputs at all"
    counts = known.bincount(minlength=len(x)).double()
    often = expected >= FEW
    cells = [*zip(counts[often].tolist(), expected[often].tolist(), strict=True)]
    rest = (float(counts[~often].sum()), float(expected[~often].sum()))
    if rest[1] >= FEW or rest[0] > 10 * FEW:
        cells.append((rest[0], max(rest[1], 0.5)))
    statistic = sum((got - want) ** 2 / want for got, want in cells)
    bound = float(stats.chi2.isf(RARE, max(1, len(cells) - 1)))
    return statistic, bound, f"chi-square of {len(drawn)} samples over {len(cells)} cells"


def stirred(module: nn.Module) -> nn.Module:
    """The module with much noise on its parameters, so that no two inputs are equally probable."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))
    return module


def _likelihood_kind(module: Any) -> str:
    return str(getattr(module, "likelihood_kind", "exact"))
