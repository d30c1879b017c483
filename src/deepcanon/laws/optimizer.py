r"""The laws of optimizers: a class of ``torch.optim.Optimizer``, made as ``Class(parameters, lr=...)``.

Steps are taken on a quadratic whose gradient is known. The step of gradient descent is the rate times the gradient;
momentum is :math:`v \leftarrow \mu v - \eta \nabla J`, with the gradient at :math:`\theta + \mu v` for Nesterov's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import Stepper, called
from deepcanon.laws.probe import seeded

RATE, STEPS, SIZE, MOMENTUM = 1e-3, 4, 6, 0.9
BOUND = 1e-6


@law
def the_first_step_is_proportional_to_the_rate(module: Any, batch: Batch) -> Measured:
    """Twice the learning rate makes a first step of twice the length: the rate stands in the step."""
    one, two = (_path(module, 1, rate=rate)[1] - _start() for rate in (RATE, 2 * RATE))
    gap = float((two - 2 * one).abs().max() / one.abs().max().clamp_min(1e-30))
    return gap, 1e-3, f"at twice the rate, the first step is off by {gap:.1%} of twice its length"


@law
def steps_scale_as_gradients_or_not_at_all(module: Any, batch: Batch) -> Measured:
    """An objective times 2 makes a first step of twice the length, or of the same where gradients are normalized."""
    one, two = (_path(module, 1, size=size)[1] - _start() for size in (1.0, 2.0))
    length = one.abs().max().clamp_min(1e-30)
    gap = min(float((two - factor * one).abs().max() / length) for factor in (1.0, 2.0))
    return gap, 1e-3, f"the steps for two sizes of the gradient are {gap:.1%} from equal or proportional"


@law
def a_small_step_goes_downhill(module: Any, batch: Batch) -> Measured:
    """A first step along the gradient lowers the objective."""
    path = _path(module, 1)
    before, after = (float(_objective(point, 1.0)) for point in path)
    return after - before, 0, f"the objective goes from {before:.6g} to {after:.6g}"


@law
def momentum_is_the_formula(module: Any, batch: Batch) -> Measured | None:
    """Steps with momentum are those of its formula, as torch has it or with the point that looks ahead."""
    if not called(module.make, "SGD|Momentum|Nesterov|HeavyBall") or not module.accepts("momentum"):
        return None
    nesterov = module.accepts("nesterov") or called(module.make, "Nesterov")
    gaps = []
    for ahead in [False, True] if module.accepts("nesterov") else [called(module.make, "Nesterov")]:
        options: dict[str, Any] = {"momentum": MOMENTUM}
        if module.accepts("nesterov"):
            options["nesterov"] = ahead
        found = _path(module, STEPS, **options)
        gaps.append(min(float((found - wanted).abs().max()) for wanted in _formulas(ahead)))
    words = "with and without looking ahead" if nesterov else "of a heavy ball"
    return max(gaps), BOUND, f"{STEPS} steps {words} are off by {max(gaps):.2g}"


LAWS = (
    the_first_step_is_proportional_to_the_rate,
    steps_scale_as_gradients_or_not_at_all,
    a_small_step_goes_downhill,
    momentum_is_the_formula,
)


def check_optimizer(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of optimizers in any class of torch's optimizers."""
    if not isinstance(module, Stepper):
        raise UsageError("an optimizer is a class of torch.optim.Optimizer that is made of parameters and lr")
    return outcomes(LAWS, module, batch)


def recognize_optimizer(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """The start of a path, for a class of optimizers."""
    return Batch(_start()) if isinstance(module, Stepper) else None


def _start() -> Tensor:
    return torch.randn(SIZE, 1, generator=seeded(0)).double() + 2.0


def _objective(point: Tensor, size: float) -> Tensor:
    curvature = torch.linspace(0.5, 2.0, SIZE, dtype=torch.float64).unsqueeze(1)
    return 0.5 * size * (curvature * point.square()).sum()


def _path(module: Stepper, steps: int, rate: float = RATE, size: float = 1.0, **options: Any) -> Tensor:
    """The points that an optimizer goes through, the start first."""
    point = nn.Parameter(_start())
    optimizer = module.make([point], lr=rate, **options)
    path = [point.detach().clone()]
    for _ in range(steps):

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = _objective(point, size)
            loss.backward()
            return loss

        optimizer.step(closure)
        path.append(point.detach().clone())
    return torch.stack(path)


def _formulas(ahead: bool) -> list[Tensor]:
    """The path by the formula, and for one that looks ahead that of the points theta + mu v, which torch stores."""
    curvature = torch.linspace(0.5, 2.0, SIZE, dtype=torch.float64).unsqueeze(1)
    point, speed = _start(), torch.zeros(SIZE, 1, dtype=torch.float64)
    path, looks = [point], [point]
    for _ in range(STEPS):
        where = point + MOMENTUM * speed if ahead else point
        speed = MOMENTUM * speed - RATE * curvature * where
        point = point + speed
        path.append(point)
        looks.append(point + MOMENTUM * speed)
    return [torch.stack(path), torch.stack(looks)] if ahead else [torch.stack(path)]
