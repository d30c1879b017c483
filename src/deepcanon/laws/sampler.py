"""The laws of samplers: ``sample`` draws from the density that ``log_prob`` gives."""

from __future__ import annotations

from typing import Any

import torch
from scipy import stats
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.laws.continuous import Grid, exact, settled
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import seeded

DRAWS = 4000
RARE = 1e-6
"""The significance level: how improbable a statistic must be before a statistical law is taken to be broken."""
BLOCK = 30
"""How many points of the grid along each axis are counted together."""
FEW = 5.0
"""Blocks that are expected less often than this are counted together."""


@law
def samples_are_finite_and_differ(module: Any, batch: Batch) -> Measured:
    """Samples are finite, in the shape of the data, and no two of them are the same."""
    module, batch = settled(module, batch)
    with torch.no_grad():
        x = module.sample(256, generator=seeded(0)).flatten(1)
    if tuple(x.shape) != (256, batch.x.shape[1:].numel()):
        return 1, 0, f"256 samples have the shape {tuple(x.shape)}"
    bad = int((~x.isfinite()).any(1).sum()) + len(x) - len(x.unique(dim=0))
    return bad, 0, f"{len(x)} samples, {len(x.unique(dim=0))} different ones"


@law
def samples_follow_the_density(module: Any, batch: Batch) -> Measured | None:
    """Samples fall into the cells of a grid as often as the density says (chi-square), in one or two dimensions."""
    if not (exact(module) and hasattr(module, "log_prob")):
        return None
    module, batch = settled(module, batch)
    grid = Grid.around(module, batch)
    if grid is None:
        return None
    expected = DRAWS * _blocks(grid.log_masses(module).exp())
    with torch.no_grad():
        x = module.sample(DRAWS, generator=seeded(0)).double().flatten(1)
    cell = ((x - grid.low) / (grid.high - grid.low) * grid.points).floor().long()
    inside = ((cell >= 0) & (cell < grid.points)).all(1)
    counts = torch.zeros([grid.points] * x.shape[1], dtype=torch.float64)
    counts.index_put_(tuple(cell[inside].T), torch.ones((), dtype=torch.float64), accumulate=True)
    counted, wanted = _merged(_blocks(counts), expected, outside=int((~inside).sum()))
    statistic = float(((counted - wanted).square() / wanted).sum())
    bound = float(stats.chi2.isf(RARE, max(1, len(wanted) - 1)))
    return statistic, bound, f"chi-square of {DRAWS} samples in {len(wanted)} cells"


LAWS = (samples_are_finite_and_differ, samples_follow_the_density)


def check_sampler(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of samplers in any module with ``sample``; the chi-square needs ``log_prob`` too."""
    if not callable(getattr(module, "sample", None)):
        raise UsageError("a sampler has sample(n, generator=...)")
    return outcomes(LAWS, module, batch)


def _blocks(values: Tensor) -> Tensor:
    """Sums over blocks of the grid, flat; of a line a block is as long as a square has points."""
    size = BLOCK if values.ndim == 2 else BLOCK**2
    for axis in range(values.ndim):
        parts = values.split(size, dim=axis)
        values = torch.stack([part.sum(axis) for part in parts], dim=axis)
    return values.flatten()


def _merged(counts: Tensor, expected: Tensor, outside: int) -> tuple[Tensor, Tensor]:
    """Counts of the frequent cells, and of all others together with what fell outside the grid."""
    frequent = expected >= FEW
    counted = torch.cat([counts[frequent], counts[~frequent].sum().reshape(1) + outside])
    wanted = torch.cat([expected[frequent], expected[~frequent].sum().reshape(1)])
    return counted, wanted.clamp_min(1.0)
