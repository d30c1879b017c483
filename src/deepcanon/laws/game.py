"""The laws of games: each turn is its own player's, and the best discriminator is the one that theory gives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Descend, Model, UsageError
from deepcanon.core.conditional import given_batch
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, violations
from deepcanon.laws.play import play, schedule, train_briefly
from deepcanon.laws.probe import doubled, first, total

DATA = (2, 4, 6, 8)
"""How often each of four points is in the data."""
SAMPLES = (8, 2, 7, 3)
"""How often each of them is among as many samples."""
EXACT = 1e-5
"""How close the best discriminator is found."""
MOST = 64
"""The number of examples whose distance to as many samples is computed exactly."""


@law
def a_turn_changes_only_its_player(model: Any, batch: AnyBatch) -> Measured | None:
    """A turn of gradient descent leaves the parts without a parameter of it as they are, their buffers included.

    The running statistics of batch normalization may move: in training they are not used.
    """
    if not isinstance(model, Model):
        return None
    faults: list[str] = []
    for turn in schedule(model, batch):
        own = {id(parameter) for parameter in turn.parameters} if isinstance(turn, Descend) else set()
        others = [
            (name, part)
            for name, part in model.named_children()
            if own and any(True for _ in part.parameters()) and not own & {id(p) for p in part.parameters()}
        ]
        before = [_state(part) for _, part in others]
        play(model, turn, batch)
        for (name, part), old in zip(others, before, strict=True):
            changed = [key for key, value in _state(part).items() if not torch.equal(value, old[key])]
            faults += [f"the turn {turn.name} changes {name}.{key}" for key in changed]
    return violations(list(dict.fromkeys(faults)), f"{len(model.turns())} turns kept to their player")


@law
def best_discriminator_is_p_over_p_plus_q(module: Any, batch: AnyBatch) -> Measured | None:
    """On points of known frequencies, the discriminator of least loss gives the data the probability p / (p + q)."""
    if not _classifies(module):
        return None
    logits, _ = _best(module, batch)
    wanted = torch.tensor([p / (p + q) for p, q in zip(DATA, SAMPLES, strict=True)], dtype=torch.float64)
    gap = float((logits.sigmoid() - wanted).abs().max())
    found, exact = (" ".join(f"{value:.4f}" for value in values.tolist()) for values in (logits.sigmoid(), wanted))
    return gap, EXACT, f"D is {found} where {exact} is exact"


@law
def best_value_is_two_js_minus_log_4(module: Any, batch: AnyBatch) -> Measured | None:
    """Against the best discriminator, the game is worth twice the Jensen-Shannon divergence minus log 4."""
    if not _classifies(module):
        return None
    _, loss = _best(module, batch)
    rows = sum(DATA)
    divergence = sum(
        0.5 * (p * math.log(2 * p / (p + q)) + q * math.log(2 * q / (p + q))) / rows
        for p, q in zip(DATA, SAMPLES, strict=True)
    )
    value = 2 * divergence - math.log(4)
    return abs(-loss - value), EXACT, f"the game is worth {-loss:.6f} where {value:.6f} is exact"


@law
def critic_stays_below_the_earth_movers_distance(module: Any, batch: AnyBatch) -> Measured | None:
    """What a critic says of the distance of two samples is at most their exact distance, however steep it is."""
    if not hasattr(module, "wasserstein"):
        return None
    if isinstance(module, Model):
        train_briefly(module, batch)
    module, batch = doubled(module, batch)
    some = first(batch, MOST)
    module = given_batch(module, some)
    with torch.no_grad():
        fake = module.sample(len(some)).double()
        exact = _earth_movers_distance(some.x.flatten(1), fake.flatten(1))
        found = [float(module.wasserstein(some.x, fake))]
        for parameter in module.discriminator.parameters():
            parameter.mul_(10)
        found.append(float(module.wasserstein(some.x, fake)))
    return max(found) - exact, 1e-9 * exact, f"the critic says {max(found):.6g}, and {exact:.6g} is exact"


LAWS = (
    a_turn_changes_only_its_player,
    best_discriminator_is_p_over_p_plus_q,
    best_value_is_two_js_minus_log_4,
    critic_stays_below_the_earth_movers_distance,
)


def check_game(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of games in any module with ``discriminator_loss(batch)``.

    The best discriminator is found where there is one ``generator`` and one ``discriminator`` that gives logits.
    """
    if not callable(getattr(module, "discriminator_loss", None)):
        raise UsageError("a game has discriminator_loss(batch), and the parts generator and discriminator")
    return outcomes(LAWS, module, batch)


class _Atoms(nn.Module):
    """A generator of the known points, as often as said, whatever the noise."""

    def __init__(self, points: Tensor) -> None:
        super().__init__()
        self.points = nn.Parameter(points, requires_grad=False)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.points.repeat_interleave(torch.tensor(SAMPLES), 0)


class _Table(nn.Module):
    """A discriminator with a free logit for each of the known points."""

    def __init__(self, points: Tensor) -> None:
        super().__init__()
        self.points = points
        self.logits = nn.Parameter(torch.zeros(len(points), dtype=points.dtype))

    def forward(self, x: Tensor, *more: Tensor) -> Tensor:
        return self.logits[torch.cdist(x.flatten(1), self.points).argmin(1)].unsqueeze(1)


def _classifies(module: Any) -> bool:
    """Whether the discriminator classifies data and samples, of one generator."""
    players = (getattr(module, part, None) for part in ("generator", "discriminator"))
    return all(isinstance(player, nn.Module) for player in players) and not hasattr(module, "wasserstein")


def _best(module: Any, batch: AnyBatch) -> tuple[Tensor, float]:
    """The logits of the best discriminator of the known points, and its loss."""
    module, batch = doubled(module, batch)
    shape = batch.x.shape[1:]
    points = torch.arange(len(DATA), dtype=torch.float64).unsqueeze(1).expand(-1, shape.numel()).contiguous()
    table = _Table(points)
    module.generator, module.discriminator = _Atoms(points), table
    rows = batch.select(torch.arange(sum(DATA)) % len(batch))
    known = replace(rows, x=points.repeat_interleave(torch.tensor(DATA), 0).view(-1, *shape))
    optimizer = torch.optim.LBFGS(
        [table.logits], max_iter=300, tolerance_grad=1e-12, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = total(module.discriminator_loss(known))
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        told = given_batch(module, batch.select(torch.arange(len(points)) % len(batch)))
        discriminate = getattr(told, "discriminate", lambda x: table(x).squeeze(1))
        return discriminate(points.view(-1, *shape)), float(total(module.discriminator_loss(known)))


def _earth_movers_distance(x: Tensor, y: Tensor) -> float:
    """The exact distance of two samples of one size, by the best assignment."""
    costs = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    return float(costs[linear_sum_assignment(costs)].mean())


def _state(part: nn.Module) -> dict[str, Tensor]:
    """All tensors of a part but the running statistics of batch normalization."""
    layers = {
        name: module for name, module in part.named_modules() if isinstance(module, nn.modules.batchnorm._NormBase)
    }
    running = {f"{name}.{key}".lstrip(".") for name, layer in layers.items() for key, _ in layer.named_buffers()}
    return {key: value.detach().clone() for key, value in part.state_dict().items() if key not in running}
