"""Fair contests: each candidate at its own best learning rate, over several seeds, and no winner inside the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from scipy.stats import t
from torch import Generator, Tensor

from deepcanon.core import Labeled, Model
from deepcanon.core.plural import counted
from deepcanon.data import Dataset
from deepcanon.studies._helpers.side_by_side import SideBySide
from deepcanon.train.randomness import kept, seed_from, seed_torch

RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""The learning rates of SGD with which a search begins, two per power of ten."""
WIDER = 6
"""By how many rates the grid may grow at its ends, until the best one lies inside."""
TUNING = 3
"""How many seeds the learning rate is chosen by, which are not among those that are measured."""
SIZE = 64
"""The usual size of a batch."""
LOOK, SEEN = 10, 512
"""After how many steps, and on how many training examples, it is seen whether a loss is reached."""
POINTS = 60
"""The most points of a learning curve."""
CONFIDENCE = 0.95
CERTAIN = f"{CONFIDENCE:.0%} confidence intervals"


def steps_of(data: Dataset[Any], epochs: int) -> int:
    """The steps of so many epochs."""
    return epochs * math.ceil(len(data.train) / SIZE)


def tuning(epochs: int, rates: Sequence[float] = RATES) -> str:
    """How :func:`classification` trains, in words."""
    return (
        f"SGD, {counted(epochs, 'epoch')} of batches of {SIZE}, cosine schedule, the first rate of each the best on "
        f"validation data of {rates[0]:g} to {rates[-1]:g} and beyond where that is best"
    )


def bracketed(measure: Callable[[Sequence[float]], Sequence[float]], rates: Sequence[float]) -> dict[float, float]:
    """The score of each learning rate, lower is better, over a grid that grows until the best rate is inside it.

    >>> sorted(bracketed(lambda rates: [abs(rate - 3) for rate in rates], (0.1, 0.3)))
    [0.1, 0.3, 1.0, 3.0, 10.0]
    """
    found = dict(zip(rates, measure(rates), strict=True))
    for _ in range(WIDER):
        ordered = sorted(found)
        best = min(ordered, key=lambda rate: found[rate])
        if best not in (ordered[0], ordered[-1]):
            break
        further = _next(best, down=best == ordered[0])
        found[further] = measure([further])[0]
    return found


def _next(rate: float, down: bool) -> float:
    """The next rate of the grid 1, 3, 10, 30 and its powers of ten."""
    place = round(2 * math.log10(rate)) + (-1 if down else 1)
    return float(f"{10 ** (place / 2):.0e}")


def classification(
    build: Callable[[], Model[Any]],
    data: Dataset[Any],
    *,
    steps: int,
    seeds: int,
    seed: int,
    optimizer: str = "sgd",
    rates: Sequence[float] = RATES,
    batch_size: int = SIZE,
    until: float | None = None,
) -> tuple[dict[str, Any], list[Model[Any]]]:
    """Train a kind of classifier from several seeds, at the learning rate with the lowest validation loss.

    The rate is found with other seeds; one at which a network diverges, of these or of those that are measured, is not
    taken, unless all diverge. ``build`` makes a new network. The numbers hold the validation loss of every rate, and of
    the trainings at the best rate the learning curve and what it came to, seed by seed; also returned are the trained
    networks. Rates follow a cosine to zero; if there is a training loss ``until`` which to train, they are constant,
    and each network stops where it has reached it.
    """

    size = min(batch_size, len(data.train))

    def measure(tried: Sequence[float]) -> list[float]:
        networks, _ = _trained(build, data, steps, range(-TUNING, 0), seed, optimizer, tried, size, until)
        losses = _losses(networks, data.split("valid")).view(len(tried), TUNING)
        return [float(each.mean()) for each in losses]

    scores = bracketed(measure, rates)
    for best in sorted(scores, key=lambda rate: scores[rate]):
        networks, losses = _trained(build, data, steps, range(seeds), seed, optimizer, [best], size, until)
        valid = _losses(networks, data.split("valid"))
        if bool(valid.isfinite().all()):
            break
    taken = losses.shape[1]
    ends = sorted({round(taken * (i + 1) / POINTS) for i in range(POINTS)} - {0})
    test = data.split("test")
    numbers = {
        "rate": best,
        "rates": {f"{rate:g}": scores[rate] for rate in sorted(scores)},
        "steps": ends,
        "curves": [[float(row[a:b].mean()) for a, b in pairwise([0, *ends])] for row in losses],
        "losses": _losses(networks, data.train).tolist(),
        "valid": valid.tolist(),
        "accuracies": (networks.outputs(test.x).argmax(-1) == test.y).double().mean(1).tolist(),
    }
    return numbers, [networks.trained(number) for number in range(seeds)]


def _trained(
    build: Callable[[], Model[Any]], data: Dataset[Any], steps: int, seeds: Iterable[int], seed: int,
    optimizer: str, rates: Sequence[float], size: int, until: float | None,
) -> tuple[SideBySide, Tensor]:  # fmt: skip
    """All networks trained, rate by rate and within a rate seed by seed, and their losses (networks, steps)."""
    train = data.train
    draws = [seed_from(seed, number) for number in seeds]
    orders = [Generator().manual_seed(draw) for draw in draws]
    with kept():
        networks = SideBySide(
            [_built(build, draw) for _ in rates for draw in draws], optimizer, [rate for rate in rates for _ in draws]
        )
        seed_torch(seed)
        left = [torch.empty(0, dtype=torch.long) for _ in draws]
        losses = []
        for step in range(steps):
            left = [
                torch.cat([rest, torch.randperm(len(train), generator=order)]) if len(rest) < size else rest
                for rest, order in zip(left, orders, strict=True)
            ]
            chosen = torch.stack([rest[:size] for rest in left]).repeat(len(rates), 1)
            left = [rest[size:] for rest in left]
            y = train.y[chosen]
            if until is None:
                networks.anneal(step, steps)
            elif step % LOOK == 0:
                networks.rates[_losses(networks, train.select(torch.arange(min(SEEN, len(train))))) <= until] = 0
                if not networks.rates.any():
                    break
            losses.append(networks.step(partial(_cross_entropy, y=y), train.x[chosen]))
    return networks, torch.stack(losses, 1)


def _built(build: Callable[[], Model[Any]], draw: int) -> Model[Any]:
    seed_torch(draw)
    return build()


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape).mean(1)


def _losses(networks: SideBySide, batch: Labeled) -> Tensor:
    logits = networks.outputs(batch.x)
    return _cross_entropy(logits, batch.y.expand(len(logits), -1)).nan_to_num(math.inf)


def draw_band(
    axes: Axes, at: Sequence[float], curves: Sequence[Sequence[float | None]], color: str, label: str
) -> None:
    """Draw the mean of several curves and their range; where one of them is not a number, nothing."""
    known = [(x, each) for x, each in zip(at, zip(*curves, strict=True), strict=True) if None not in each]
    places = [x for x, _ in known]
    values = [[value for value in each if value is not None] for _, each in known]
    axes.plot(places, [fmean(each) for each in values], color=color, label=label)
    axes.fill_between(places, [*map(min, values)], [*map(max, values)], color=color, alpha=0.15, linewidth=0)


def interval(values: Sequence[float], candidates: int = 2) -> tuple[float, float]:
    """The mean, and half the width of its confidence interval by Student's t; with one value there is none.

    With more ``candidates`` than two the interval is wider (Bonferroni), since one of them was chosen.

    >>> tuple(round(value, 3) for value in interval([1.0, 2.0, 3.0]))
    (2.0, 2.484)
    """
    if len(values) < 2:
        return fmean(values), math.inf
    tail = (1 - CONFIDENCE) / 2 / max(1, candidates - 1)
    return fmean(values), float(t.ppf(1 - tail, len(values) - 1)) * stdev(values) / math.sqrt(len(values))


def alike(values: Mapping[str, Sequence[float]], lowest: bool = False) -> list[str]:
    """The best candidate on average, and all that cannot be told apart from it, paired by seeds; the best first.

    >>> alike({"a": [1.0, 2.0, 3.0], "b": [1.1, 1.9, 3.1], "c": [0.0, 1.0, 2.1]})
    ['b', 'a']
    """
    ordered = sorted(values, key=lambda name: fmean(values[name]), reverse=not lowest)
    best = ordered[0]
    found = [best]
    for name in ordered[1:]:
        apart, width = interval([a - b for a, b in zip(values[best], values[name], strict=True)], len(values))
        if abs(apart) <= width:
            found.append(name)
    return found


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def winner(values: Mapping[str, Sequence[float]], lowest: bool = False) -> str:
    """Who is best, in words: one candidate, several that cannot be told apart, or nobody.

    >>> winner({"a": [1.0, 2.0], "b": [5.0, 6.1]}), winner({"a": [1.0, 2.0], "b": [1.1, 2.0]})
    ('b is best', 'b and a cannot be told apart')
    """
    best = alike(values, lowest)
    if len(best) == 1:
        return f"{best[0]} is best"
    return f"{'all ' * (len(best) == len(values) > 3)}{listed(best)} cannot be told apart"
