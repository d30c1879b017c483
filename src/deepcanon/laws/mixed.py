"""The laws of mixed distributions: modules with a ``log_prob`` of categories and real numbers together.

``discrete`` says which features of an example, counted through, are categories; these have the values that occur in the
examples. All of their states are written out, and over each the density of one or two real features is integrated.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Model, UsageError
from deepcanon.laws.continuous import SIGMAS, Grid, exact, settled
from deepcanon.laws.discrete import DRAWS, chi_square, loss_is_the_negative_log_likelihood
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import seeded

MOST = 64
"""How many states of the categories are written out at most."""
OFTEN = 100
"""How many samples of a state have a mean that is compared."""


@law
def sums_and_integrals_make_one(module: Any, batch: Batch) -> Measured | None:
    """The density, integrated over the real features and summed over the states of the categories, is 1."""
    table = _table(module, batch)
    if table is None:
        return None
    mass = float(table.masses.sum())
    return abs(mass - 1), 0.01, f"the integrals over {len(table.states)} states sum to {mass:.6g}"


@law
def samples_have_the_shares_of_the_states(module: Any, batch: Batch) -> Measured | None:
    """The categories of samples occur as often as the integrals over the real features say (chi-square)."""
    table = _table(module, batch)
    return None if table is None else chi_square(table.drawn_states, table.states, DRAWS * table.masses)


@law
def real_values_go_with_their_categories(module: Any, batch: Batch) -> Measured | None:
    """Among the samples of a state, the real features have the mean of the density given this state."""
    table = _table(module, batch)
    if table is None:
        return None
    worst = 0.0
    for state, mean in zip(table.states, table.means, strict=True):
        y = table.drawn_reals[(table.drawn_states == state).all(1)]
        if len(y) >= OFTEN:
            off = float(((y.mean(0) - mean).abs() / (y.std(0) / math.sqrt(len(y)) + 1e-9)).max())
            worst = off if not off <= worst else worst
    return worst, SIGMAS, f"{DRAWS} samples; the worst mean is {worst:.2f} standard errors off"


@law
def other_values_are_refused(module: Any, batch: Batch) -> Measured | None:
    """A model gives no likelihood to categories that are not whole numbers."""
    if not isinstance(module, Model):
        return None
    x = batch.x.clone()
    x.flatten(1)[:, list(module.discrete)] = 0.5  # type: ignore[arg-type]
    try:
        with torch.no_grad():
            module.eval().log_prob(x)  # type: ignore[operator]
    except UsageError as refusal:
        return 0, 0, f"refused: {refusal}"
    return 1, 0, "a category of one half got a likelihood"


LAWS = (
    sums_and_integrals_make_one,
    samples_have_the_shares_of_the_states,
    real_values_go_with_their_categories,
    loss_is_the_negative_log_likelihood,
    other_values_are_refused,
)


def check_mixed(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of mixed distributions in any module with ``log_prob``, ``sample`` and ``discrete``."""
    missing = [name for name in ("log_prob", "sample", "discrete") if not hasattr(module, name)]
    if missing:
        raise UsageError(f"a mixed distribution has log_prob, sample and discrete; {', '.join(missing)} is missing")
    return outcomes(LAWS, module, batch)


class _Table(NamedTuple):
    """The mass and the mean of each state of the categories, (states, ...), and samples in the same two parts."""

    states: Tensor
    masses: Tensor
    means: Tensor
    drawn_states: Tensor
    drawn_reals: Tensor


class _Reals:
    """The real features of a module at one state of its categories."""

    def __init__(self, module: Any, places: list[int], state: Tensor, drawn: Tensor) -> None:
        self.module, self.places, self.state, self.drawn = module, places, state, drawn
        size = len(places) + drawn.shape[1]
        self.others = [place for place in range(size) if place not in places]

    def log_prob(self, y: Tensor) -> Tensor:
        x = y.new_empty(len(y), len(self.places) + len(self.others))
        x[:, self.places], x[:, self.others] = self.state.to(y), y
        found: Tensor = self.module.log_prob(x)
        return found

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        return self.drawn[:n]


def _table(module: Any, batch: Batch) -> _Table | None:
    if not exact(module):
        return None
    module, batch = settled(module, batch)
    rows, places = batch.x.flatten(1), list(module.discrete)
    others = [place for place in range(rows.shape[1]) if place not in places]
    states = torch.tensor(list(product(*[rows[:, place].unique().tolist() for place in places])), dtype=rows.dtype)
    if len(states) > MOST or len(others) > 2:
        return None
    with torch.no_grad():
        drawn = module.sample(DRAWS, generator=seeded(0)).to(rows).flatten(1)
    masses, means = [], []
    for state in states:
        reals = _Reals(module, places, state, drawn[:, others])
        grid = Grid.around(reals, Batch(rows[:, others]))
        assert grid is not None
        mass = grid.log_masses(reals).exp()
        middle = (torch.arange(grid.points, dtype=torch.float64) + 0.5) / grid.points
        sums = [mass.movedim(kept, 0).flatten(1).sum(1) if mass.ndim > 1 else mass for kept in range(mass.ndim)]
        lines = [low + (high - low) * middle for low, high in zip(grid.low, grid.high, strict=True)]
        masses.append(mass.sum())
        means.append(torch.stack([(part * line).sum() for part, line in zip(sums, lines, strict=True)]) / mass.sum())
    return _Table(states, torch.stack(masses), torch.stack(means), drawn[:, places], drawn[:, others])
