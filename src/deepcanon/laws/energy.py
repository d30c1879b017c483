"""The laws of energy-based models: ``energy`` is the negative log-likelihood of an example up to a constant."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, Descend, Incomplete, Model, UsageError, log_likelihood
from deepcanon.laws.continuous import exact
from deepcanon.laws.discrete import DRAWS, chi_square, states, stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.play import train_briefly
from deepcanon.laws.probe import TIGHT, distance, doubled, first, repeated, seeded, total

ROUNDS = 100
ROWS = 256
PATTERNS = 8
"""How many sets of missing entries are tried."""
STATES, UPDATES = 64, 5
"""From how many random states an associative memory is updated, and how many of its states are looked at."""
MOST_UNITS = 10
"""Of so many binary hidden units all states are written out."""


@law
def each_example_has_one_finite_energy(module: Any, batch: Batch) -> Measured:
    """The energy is one number per example, the same alone and in a batch."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        found = module.energy(batch.x)
        if tuple(found.shape) != (len(batch.x),):
            return 1, 0, f"energy gives {tuple(found.shape)} for {len(batch.x)} examples"
        alone = torch.cat([module.energy(batch.x[i : i + 1]) for i in range(min(4, len(batch)))])
    gap = distance(alone, found[: len(alone)])
    bad = int((~found.isfinite()).sum())
    return gap + bad, TIGHT, f"{bad} energies are not finite; alone they differ by {gap:.2g}"


@law
def low_energy_is_high_probability(module: Any, batch: Batch) -> Measured | None:
    """Energy and log-probability sum to the same constant for all examples; if entries are missing, for whole ones."""
    if not hasattr(module, "log_prob"):
        return None
    module, batch = doubled(stirred(module), batch)
    x = _whole(batch.x)
    with torch.no_grad():
        constant = module.energy(x) + log_likelihood(module, x, samples=10, generator=seeded(0))
    spread = float(constant.max() - constant.min()) / (1 + float(constant.abs().max()))
    return spread, TIGHT, f"energy + log_prob lies from {float(constant.min()):.9g} to {float(constant.max()):.9g}"


@law
def the_constant_normalizes(module: Any, batch: Batch) -> Measured | None:
    """The sum of exp(-energy) over all inputs is the partition function Z of an exact log p = -energy - log Z."""
    if not hasattr(module, "log_prob") or not exact(module):
        return None
    module, batch = doubled(stirred(module), batch)
    x = states(module, batch)
    if x is None:
        return None
    with torch.no_grad():
        wanted = float((-module.energy(x)).logsumexp(0))
        claimed = -float((module.energy(x[:1]) + module.log_prob(x[:1]))[0])
    return (
        abs(wanted - claimed),
        1e-6 * (1 + abs(wanted)),
        f"the log partition function (log Z) is {wanted:.9g}, the model's is {claimed:.9g}",
    )


@law
def what_is_there_sums_to_one(module: Any, batch: AnyBatch) -> Measured | None:
    """Whatever entries are missing, the probabilities of all values of the others sum to 1."""
    if not isinstance(batch, Incomplete) or not hasattr(module, "log_prob") or not exact(module):
        return None
    module, batch = doubled(stirred(module), batch)
    x = states(module, batch)
    if x is None:
        return None
    worst, patterns = 0.0, (~batch.x.isnan()).unique(dim=0)[:PATTERNS]
    for pattern in patterns:
        there = x.masked_fill(~pattern, torch.nan).nan_to_num(0.0).unique(dim=0)
        with torch.no_grad():
            mass = float(module.log_prob(there.masked_fill(~pattern, torch.nan)).logsumexp(0).exp())
        worst = max(worst, abs(mass - 1)) if mass == mass else math.nan
    return worst, 1e-6, f"{len(patterns)} sets of entries that are there; the worst sum is {worst:.3g} off"


@law
def hidden_units_sum_out(module: Any, batch: Batch) -> Measured | None:
    """The energy of an example is -log of the sum of exp(-E(x, h)) over all states h of its binary hidden units."""
    units = getattr(module, "units", 0)
    if not hasattr(module, "joint_energy") or not 0 < units <= MOST_UNITS:
        return None
    module, batch = doubled(stirred(module), first(batch, 8))
    every = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * units).reshape(-1, units)
    with torch.no_grad():
        table = torch.stack([module.joint_energy(batch.x, h.expand(len(batch), -1)) for h in every])
        gap = distance(module.energy(batch.x), -(-table).logsumexp(0))
    return gap, TIGHT, f"sums over {len(every)} hidden states; the largest difference is {gap:.3g}"


@law
def real_energies_rise_far_out(module: Any, batch: Batch) -> Measured | None:
    """Far from the data the energy of real numbers rises without end in all directions, else Z diverges."""
    if not batch.x.is_floating_point() or bool((batch.x == batch.x.sign()).all()):
        return None  # zeros and ones, or signs: a sum over finitely many
    if getattr(module, "support", "any") == "categorical":
        return None
    module, batch = doubled(module, batch)
    direction = torch.randn(batch.x.shape, generator=seeded(0), dtype=batch.x.dtype)
    direction = direction / direction.flatten(1).norm(dim=1).view(-1, *[1] * (direction.ndim - 1))
    scale = 1 + float(batch.x.abs().max())
    with torch.no_grad():
        near, far, farther = (module.energy(radius * scale * direction) for radius in (1e2, 1e3, 1e4))
    sinking = int(((far <= near) | (farther <= far)).sum())
    return sinking, 0, f"the energy does not rise in {sinking} of {len(direction)} directions"


@law
def retrieval_never_raises_the_energy(module: Any, batch: Batch) -> Measured | None:
    """Each update of an associative memory leads from any state to one of no higher energy."""
    if not hasattr(module, "retrieve"):
        return None
    if isinstance(module, Model):
        train_briefly(module, batch)
    module, batch = doubled(module, batch)
    noise = torch.randn((STATES, *batch.x.shape[1:]), generator=seeded(0), dtype=batch.x.dtype)
    x = torch.cat([batch.x, batch.x.mean() + batch.x.std() * noise])
    with torch.no_grad():
        states = [module.retrieve(x, update_steps=steps) for steps in range(UPDATES)]
        energies = torch.stack([module.energy(state) for state in states])
    rise = float(energies.diff(dim=0).max()) / (1 + float(energies.abs().max()))
    return rise, TIGHT, f"over {UPDATES - 1} updates of {len(x)} states the energy rises by at most {rise:.3g}"


@law
def samples_follow_the_energies(module: Any, batch: Batch) -> Measured | None:
    """Inputs drawn by ``sample`` occur in proportion to exp(-energy) (chi-square)."""
    if not hasattr(module, "sample"):
        return None
    module, batch = doubled(stirred(module), batch)
    x = states(module, batch)
    if x is None:
        return None
    with torch.no_grad():
        expected = DRAWS * (-module.energy(x)).double().softmax(0)
        drawn = module.sample(DRAWS, generator=seeded(0))
    return chi_square(drawn, x, expected)


@law
def gradient_by_hand_is_that_of_the_loss(module: Any, batch: Batch) -> Measured | None:
    """A turn that fills in its gradient by a rule of its own fills in what its loss has, with the same random draws."""
    if not isinstance(module, Model):
        return None
    module, batch = doubled(stirred(module), batch)
    worst, names = 0.0, []
    for number, turn in enumerate(module.turns()):
        if isinstance(turn, Descend) and turn.gradient is not None:
            names.append(turn.name)
            gap = distance(_gradients(module, number, batch, by_hand=True), _gradients(module, number, batch))
            worst = gap if not gap <= worst else worst
    return (worst, TIGHT, f"turns {', '.join(names)}") if names else None


@law
def learning_raises_the_likelihood(module: Any, batch: Batch) -> Measured | None:
    """On average the gradient of the contrastive divergence points where the exact likelihood of the data falls."""
    if not (hasattr(module, "loss") and hasattr(module, "log_prob") and exact(module)):
        return None
    if isinstance(module, Model) and not module.surrogate:
        return None  # its loss is held against log_prob by other laws
    module, batch = doubled(stirred(module), batch)
    many = repeated(batch, math.ceil(ROWS / len(batch)))
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    wanted = torch.autograd.grad(-module.log_prob(batch.x).mean(), parameters)
    mean = [torch.zeros_like(parameter) for parameter in parameters]
    for _ in range(ROUNDS):
        for total_so_far, part in zip(mean, torch.autograd.grad(total(module.loss(many)), parameters), strict=True):
            total_so_far += part / ROUNDS
    one, other = (torch.cat([part.flatten() for part in parts]) for parts in (mean, wanted))
    cosine = float(torch.cosine_similarity(one, other, dim=0))
    return -cosine, -0.3, f"the cosine between the mean gradient of the loss and that of -log p is {cosine:.3f}"


@law
def only_differences_of_energies_count(module: Any, batch: Batch) -> Measured | None:
    """Data and chains count alike in the loss: a constant added to all energies, which changes no p, changes nothing.

    A sum over chains where a mean belongs counts them too often.
    """
    if not (hasattr(module, "loss") and getattr(module, "surrogate", False)):
        return None  # a loss that measures the fit itself may have log Z by another way than by the energies
    module, batch = doubled(stirred(module), batch)
    raised = copy.deepcopy(module)
    raised.energy = lambda x: type(raised).energy(raised, x) + 1
    found = []
    for each in (module, raised):
        torch.manual_seed(0)
        with torch.no_grad():
            found.append(float(total(each.loss(batch))))
    gap = abs(found[1] - found[0]) / (1 + abs(found[0]))
    return gap, TIGHT, f"the loss is {found[0]:.9g}, and {found[1]:.9g} with 1 added to every energy"


LAWS = (
    each_example_has_one_finite_energy,
    low_energy_is_high_probability,
    the_constant_normalizes,
    what_is_there_sums_to_one,
    hidden_units_sum_out,
    real_energies_rise_far_out,
    retrieval_never_raises_the_energy,
    samples_follow_the_energies,
    gradient_by_hand_is_that_of_the_loss,
    only_differences_of_energies_count,
    learning_raises_the_likelihood,
)


def check_energy(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of energy-based models in any module with ``energy``."""
    if not callable(getattr(module, "energy", None)):
        raise UsageError("an energy model has energy, which is missing")
    return outcomes(LAWS, module, batch)


def _whole(x: Tensor) -> Tensor:
    """The examples of which no entry is missing."""
    return x[~x.isnan().flatten(1).any(1)] if x.is_floating_point() else x


def _gradients(module: Model[Any], number: int, batch: Batch, by_hand: bool = False) -> list[Tensor]:
    """The gradients of the model's turn of this number, on a copy, so that chains start alike."""
    model = copy.deepcopy(module).train()
    turn = model.turns()[number]
    if not isinstance(turn, Descend):
        return []
    torch.manual_seed(0)
    if by_hand and turn.gradient is not None:
        turn.gradient(batch)
    else:
        total(turn.loss(batch)).backward()
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in turn.parameters]
