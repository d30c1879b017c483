"""The laws of forecasters: modules with ``log_prob(series)`` and ``forecast(past, steps)``, on a batch of ``Series``.

``log_prob`` is the exact log-likelihood of what comes after the forecast origins. A module whose forecasts are whole
numbers is taken for one of counts, over which probabilities are summed; over real numbers densities are integrated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from scipy import stats
from torch import Tensor, nn

from deepcanon.core import DataError, Series, UsageError
from deepcanon.core.series import steps_from
from deepcanon.laws.discrete import RARE, stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, violations
from deepcanon.laws.probe import TIGHT, distance, doubled, first, same, seeded, total

ROWS, PADDING, PATHS, AHEAD = 8, 3, 800, 3
NODES = 160
"""The number of values at which a density is evaluated to integrate it."""
FACTORS = (1e-3, 7.0)
"""What a series is multiplied by."""
FITTED = 0.1
"""How far a share may be from its level beyond chance, in its standard deviations, since no fit is perfect."""


@law
def padding_is_never_read(module: Any, batch: Series) -> Measured:
    """What stands beyond the end of a series, be it NaN, changes no bit of likelihoods, gradients and forecasts."""
    model, batch = _prepared(module, batch)
    outside = (torch.arange(batch.x.shape[1]) >= batch.lengths.unsqueeze(1)).unsqueeze(2)
    covariates = None if batch.covariates is None else batch.covariates[:, : batch.x.shape[1]]
    broken = replace(
        batch,
        x=batch.x.masked_fill(outside, math.nan),
        covariates=None if covariates is None else covariates.masked_fill(outside, math.nan),
    )
    changed = []
    with torch.no_grad():
        if not torch.equal(model.log_prob(broken), model.log_prob(batch)):
            changed.append("log_prob")
        past = replace(batch.past, x=batch.x.masked_fill(_after(batch, batch.origins), math.nan))
        if not same(_paths(model, past), _paths(model, batch.past)):
            changed.append("forecast")
    wanted, found = (_gradients(model, part) for part in (batch, broken))
    changed += [f"the gradient of {name}" for name in wanted if not torch.equal(found[name], wanted[name])]
    return len(changed), 0, f"changed by what the padding holds: {', '.join(changed[:3]) or 'nothing'}"


@law
def more_padding_changes_nothing(module: Any, batch: Series) -> Measured:
    """Series padded to a greater length have the same likelihoods."""
    model, batch = _prepared(module, batch)

    def longer(part: Tensor) -> Tensor:
        return torch.cat([part, part[:, :1].expand(-1, PADDING, *part.shape[2:])], 1)

    known = None if batch.covariates is None else longer(batch.covariates)
    padded = replace(batch, x=longer(batch.x), covariates=known, times=None)
    with torch.no_grad():
        gap = distance(model.log_prob(padded), model.log_prob(batch))
    return gap, TIGHT, f"{PADDING} more steps of padding move likelihoods by {gap:.2g}"


@law
def series_do_not_mix(module: Any, batch: Series) -> Measured:
    """A series has the likelihood that it has alone and without its padding."""
    model, batch = _prepared(module, batch)
    worst, where = 0.0, ""
    with torch.no_grad():
        together = model.log_prob(batch)
        for row in range(len(batch)):
            gap = distance(model.log_prob(_alone(batch, row, int(batch.lengths[row]))), together[row : row + 1])
            if not gap <= worst:
                worst, where = gap, f"; the worst is row {row}"
    return worst, TIGHT, f"{len(batch)} series, each also alone{where}"


@law
def loss_is_nll_per_step(module: Any, batch: Series) -> Measured | None:
    """The loss is the negative log-likelihood of all series by the number of steps that are predicted."""
    if not hasattr(module, "loss"):
        return None
    model, batch = _prepared(module, batch)
    with torch.no_grad():
        nats, loss = -float(model.log_prob(batch).sum()), float(total(model.loss(batch)))
    gap = abs(loss - nats / batch.weight)
    return gap, TIGHT * (1 + abs(loss)), f"the loss is {loss:.6g}; {nats:.6g} nats for {batch.weight} steps"


@law
def parts_of_a_batch_add_up(module: Any, batch: Series) -> Measured | None:
    """Loss and gradients of series of unequal length are the means of its parts', each with its ``weight``."""
    if not hasattr(module, "loss") or len(batch) < 2:
        return None
    model, batch = _prepared(module, batch)
    parts = [batch.select(index) for index in torch.arange(len(batch)).tensor_split(3) if len(index)]
    shares = [part.weight / batch.weight for part in parts]
    wanted, each = _gradients(model, batch), [_gradients(model, part) for part in parts]
    added = {name: sum((s * g[name] for s, g in zip(shares, each, strict=True)), torch.zeros(())) for name in wanted}
    with torch.no_grad():
        loss = sum(s * float(total(model.loss(part))) for s, part in zip(shares, parts, strict=True))
        gap = abs(loss - float(total(model.loss(batch))))
    gap = max(gap, *(distance(added[name], wanted[name]) for name in wanted))
    return gap, TIGHT * (1 + abs(loss)), f"{len(parts)} parts are off by {gap:.2g} from the whole"


@law
def steps_add_up_to_the_series(module: Any, batch: Series) -> Measured | None:
    """``step_log_probs`` sum to ``log_prob``; if the module is ``causal``, no bit of a step knows of later ones."""
    if not hasattr(module, "step_log_probs"):
        return None
    model, batch = _prepared(module, batch)
    with torch.no_grad():
        steps, later = model.step_log_probs(batch), 0
        gap = distance(steps.sum(1), model.log_prob(batch))
        for position in range(int(batch.origins.max()), batch.x.shape[1] if getattr(module, "causal", False) else 0):
            x = torch.cat([batch.x[:, :position], batch.x[:, position:] + 1], 1)
            same_past = model.step_log_probs(replace(batch, x=x))[:, :position]
            later += not torch.equal(same_past, steps[:, :position])
    return gap + later, TIGHT, f"sums are off by {gap:.2g}; {later} steps know of later ones"


@law
def covariates_are_part_of_the_series(module: Any, batch: Series) -> Measured:
    """What is known besides the values comes with the series: it is read, in likelihoods and forecasts alike.

    A context is another thing, and refused by both.
    """
    model, batch = _prepared(stirred(module), batch)
    past, faults = batch.past, []
    asked: dict[str, Callable[..., Tensor]] = {
        "log_prob": lambda series, **options: model.log_prob(series, **options),
        "forecast": lambda series, **options: model.forecast(
            series.past, _ahead(past), samples=AHEAD, generator=seeded(0), **options
        ),
    }
    with torch.no_grad():
        for name, ask in asked.items():
            try:
                ask(batch, context=batch.x)
                faults.append(f"{name} takes a context")
            except (UsageError, TypeError):
                pass
            if batch.covariates is None or _ahead(past) < 1:
                continue
            ahead = (torch.arange(batch.covariates.shape[1]) >= batch.origins.unsqueeze(1)).unsqueeze(2)
            other = replace(batch, covariates=torch.where(ahead, batch.covariates + 1, batch.covariates))
            if same(ask(other), ask(batch)):
                faults.append(f"{name} does not read the covariates of the steps to come")
    return violations(faults, f"{', '.join(asked)} take covariates from the series alone")


@law
def forecasts_have_their_shape_and_generator(module: Any, batch: Series) -> Measured:
    """Paths are (samples, B, steps, features), depend on the given generator alone, and differ from each other."""
    model, batch = _prepared(module, batch)
    faults = []
    before = torch.get_rng_state()
    once, again, other = (_paths(model, batch.past, seed) for seed in (7, 7, 8))
    if not torch.equal(before, torch.get_rng_state()):
        faults.append("the global generator is moved")
    wanted = (AHEAD, len(batch), _ahead(batch.past), batch.x.shape[2])
    if tuple(once.shape) != wanted:
        faults.append(f"the paths are {tuple(once.shape)} where {wanted} is expected")
    if not same(once, again):
        faults.append("the same generator gives other paths")
    if same(once, other) or bool((once == once[:1]).all()):
        faults.append("the paths are all the same")
    return violations(faults, f"{AHEAD} paths of {len(batch)} series")


@law
def probability_of_a_step_is_one(module: Any, batch: Series) -> Measured | None:
    """The likelihood of one step sums or integrates to 1 over all its values."""
    if batch.x.shape[2] != 1:
        return None
    model, batch = _prepared(stirred(module), batch)
    past = _alone(batch, 0, int(batch.origins[0])).past
    values, weights = _grid(model, past)
    with torch.no_grad():
        mass = float((model.log_prob(_continued(past, values.view(-1, 1))).exp() * weights).sum())
    return abs(mass - 1), 1e-4, f"over {len(values)} values it is {mass:.9g}"


@law
def forecasts_follow_the_likelihood(module: Any, batch: Series) -> Measured | None:
    """Each step of a path is distributed as ``log_prob`` says given those before it (Kolmogorov-Smirnov test)."""
    if batch.x.shape[2] != 1:
        return None
    model, batch = _prepared(stirred(module), batch)
    past = _alone(batch, 0, int(batch.origins[0])).past
    steps = min(AHEAD, _ahead(past))
    paths = model.forecast(past, steps, samples=PATHS, generator=seeded(0))[:, 0, :, 0]  # (paths, steps)
    worst, where = 0.0, ""
    for step in sorted({1, steps}):
        values, weights = _grid(model, past, step)
        given = paths[:, : step - 1].repeat_interleave(len(values), 0)
        rows = torch.cat([given, values.repeat(PATHS).unsqueeze(1)], 1)
        with torch.no_grad():
            log_p = model.log_prob(_continued(past, rows)).view(PATHS, -1)
        mass = (log_p - log_p.max(1, keepdim=True).values).exp() * weights
        below = mass.cumsum(1) / mass.sum(1, keepdim=True)
        place = torch.searchsorted(values, paths[:, step - 1].contiguous()).clamp_max(len(values) - 1).unsqueeze(1)
        low = below.gather(1, (place - 1).clamp_min(0)).masked_fill(place == 0, 0)
        chance = torch.rand(PATHS, 1, dtype=low.dtype, generator=seeded(step))  # of equal values any may come first
        ranks = (low + chance * (below.gather(1, place) - low)).squeeze(1)
        gap = float(stats.kstest(ranks.numpy(), "uniform").statistic)
        if gap > worst:
            worst, where = gap, f"; the worst is step {step}"
    return worst, float(stats.kstwo.isf(RARE, PATHS)), f"{PATHS} paths, distance of distributions{where}"


@law
def missing_last_step_is_no_step(module: Any, batch: Series) -> Measured | None:
    """A series whose last value is missing (NaN) has the likelihood of the series without it; none is read or counted.

    A module that refuses missing values is not held to it.
    """
    model, batch = _prepared(module, batch)
    batch = batch.select((batch.lengths - batch.origins >= 2).nonzero().squeeze(1))
    if not len(batch):
        return None
    place = torch.arange(batch.x.shape[1])
    missing = replace(batch, x=batch.x.masked_fill((place == batch.lengths.unsqueeze(1) - 1).unsqueeze(2), math.nan))
    holes = replace(batch, x=batch.x.masked_fill((place % 3 == 2).view(1, -1, 1), math.nan))
    with torch.no_grad():
        try:
            found, pierced = model.log_prob(missing), model.log_prob(holes)
        except (UsageError, DataError):
            return None
        gap = distance(found, model.log_prob(replace(batch, lengths=batch.lengths - 1)))
        lost = not (bool(pierced.isfinite().all()) and bool(_paths(model, holes.past).isfinite().all()))
    return gap + lost, TIGHT, f"likelihoods are off by {gap:.2g}; with holes they are {'not ' * lost}finite"


@law
def scale_of_a_series_is_its_own(module: Any, batch: Series) -> Measured | None:
    """If the module is ``scale_equivariant``, c times a series has c times the forecasts, and densities by c less."""
    if not getattr(module, "scale_equivariant", False):
        return None
    model, batch = _prepared(stirred(module), batch)
    worst, features = 0.0, batch.x.shape[2]
    with torch.no_grad():
        for factor in FACTORS:
            larger = replace(batch, x=factor * batch.x)
            wanted = model.log_prob(batch) - (batch.lengths - batch.origins).double() * features * math.log(factor)
            worst = max(worst, distance(model.log_prob(larger), wanted))
            paths = _paths(model, larger.past) / factor
            worst = max(worst, distance(paths, _paths(model, batch.past)) / (1 + float(paths.abs().max())))
    return worst, TIGHT, f"in units {', '.join(f'{1 / factor:g}' for factor in FACTORS)} times as large"


@law
def quantiles_are_calibrated(module: Any, batch: Series) -> Measured:
    """What comes true lies below the quantile of level q of a forecast in a share q of all series, at each step.

    That is a law of a fitted model, on series that follow the law of its training: it is not among those that hold of
    any forecaster. The worst of the shares must be as close to its level as those of so many independent series are.
    """
    model: Any = module.eval() if isinstance(module, nn.Module) else module
    steps = int((batch.lengths - batch.origins).min())
    truth = steps_from(batch.x, batch.origins, steps)
    paths = model.forecast(batch.past, steps, samples=PATHS, generator=seeded(0))
    worst, where = 0.0, ""
    levels = (0.1, 0.25, 0.5, 0.75, 0.9)
    for level, quantile in zip(levels, paths.quantile(paths.new_tensor(levels), 0), strict=True):  # sorts paths once
        share = (truth <= quantile).double().mean((0, 2))  # at each step
        gap = float(((share - level).abs() / math.sqrt(level * (1 - level))).max())
        if gap > worst:
            worst, where = gap, f"; the worst is the level {level:g}, below which {float(share.mean()):.1%} lie"
    bound = float(stats.norm.isf(RARE / (10 * steps))) / math.sqrt(len(batch)) + FITTED
    return worst, bound, f"{len(batch)} series, in units of a share's standard deviation{where}"


LAWS = (
    padding_is_never_read,
    more_padding_changes_nothing,
    series_do_not_mix,
    loss_is_nll_per_step,
    parts_of_a_batch_add_up,
    steps_add_up_to_the_series,
    covariates_are_part_of_the_series,
    forecasts_have_their_shape_and_generator,
    probability_of_a_step_is_one,
    forecasts_follow_the_likelihood,
    missing_last_step_is_no_step,
    scale_of_a_series_is_its_own,
)


def check_forecaster(module: nn.Module, batch: Any) -> list[Outcome]:
    """The outcomes of the laws of forecasters."""
    if not isinstance(batch, Series):
        raise UsageError(f"forecasters are held to their laws on a batch of Series, got {type(batch).__name__}")
    return outcomes(LAWS, module, batch)


def _prepared(module: nn.Module, batch: Series) -> tuple[Any, Series]:
    return doubled(module, first(batch, ROWS))


def _alone(batch: Series, row: int, length: int) -> Series:
    """One series, cut to this length; its covariates stay, as they are known of the future too."""
    one = batch.select(torch.tensor([row]))
    times = None if one.times is None else one.times[:, :length]
    ends = one.lengths.clamp_max(length)
    return replace(one, x=one.x[:, :length], times=times, lengths=ends, origins=one.origins.clamp_max(length))


def _continued(past: Series, rows: Tensor) -> Series:
    """The one series of the past continued by each of the rows of values."""
    many, steps = past.select(torch.zeros(len(rows), dtype=torch.long)), rows.shape[1]
    return replace(many, x=torch.cat([many.x, rows.unsqueeze(2)], 1), lengths=many.lengths + steps, times=None)


def _after(batch: Series, ends: Tensor) -> Tensor:
    return (torch.arange(batch.x.shape[1]) >= ends.unsqueeze(1)).unsqueeze(2)


def _ahead(past: Series) -> int:
    """How many steps can be forecast: as many as there are covariates for."""
    return AHEAD if past.covariates is None else min(AHEAD, past.covariates.shape[1] - int(past.lengths.max()))


def _paths(model: Any, past: Series, seed: int = 0) -> Tensor:
    paths: Tensor = model.forecast(past, _ahead(past), samples=AHEAD, generator=seeded(seed))
    return paths


def _grid(model: Any, past: Series, step: int = 1) -> tuple[Tensor, Tensor]:
    """Rising values over which likelihoods of the n-th step are summed, and the weight of each."""
    drawn = model.forecast(past, step, samples=PATHS, generator=seeded(1))[:, :, -1].flatten()
    if torch.equal(drawn, drawn.round()):
        values = torch.arange(100 + 4 * float(drawn.max()), dtype=torch.float64)
        return values, torch.ones_like(values)
    middle = drawn.median()
    width = (drawn.quantile(0.75) - drawn.quantile(0.25)).clamp_min(1e-6)
    angle = (torch.arange(NODES, dtype=torch.float64) + 0.5) * math.pi / NODES - math.pi / 2
    return middle + width * angle.tan(), width * math.pi / NODES / angle.cos().square()


def _gradients(model: Any, batch: Series) -> dict[str, Tensor]:
    """The gradient of the likelihood by every parameter that has one."""
    model.zero_grad()
    with torch.enable_grad():
        (total(model.loss(batch)) if hasattr(model, "loss") else -model.log_prob(batch).sum() / batch.weight).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
