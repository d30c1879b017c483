"""Fixed points of contractions, with the gradient by the implicit function theorem."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from deepcanon.core import DivergenceError

Step = Callable[[Tensor], Tensor]

TOLERANCE = 32
"""The largest change in a step, relative to the state, at which the iteration ends, in units of rounding."""


def fixed_point(step: Step, start: Tensor, *, tolerance: float | None = None, most: int = 2000) -> Tensor:
    r"""The state that a deterministic ``step`` maps to itself, found by iteration from ``start``.

    .. math:: z = f_\theta(z), \qquad
              \frac{\partial \ell}{\partial \theta} = a^\top \frac{\partial f_\theta}{\partial \theta}(z), \qquad
              a = \Big(\frac{\partial f_\theta}{\partial z}\Big)^{\!\top} a + \frac{\partial \ell}{\partial z}
              \qquad (1)

    No step of the iteration is stored: the gradient is that of one more step, and its adjoint a is a fixed point, too
    (Almeida, 1987; Pineda, 1987, https://doi.org/10.1103/PhysRevLett.59.2229). The step must be a contraction, and one
    that has not come to rest to the ``tolerance`` after ``most`` steps is refused. NaN in the inputs of a step stays in
    the rows that it reaches.

    >>> w = torch.tensor(0.5, requires_grad=True)
    >>> z = fixed_point(lambda z: w * z + 1, torch.zeros(()))  # 1 / (1 - w)
    >>> z.backward()
    >>> round(z.item(), 3), round(w.grad.item(), 3)
    (2.0, 4.0)
    """
    if tolerance is None:
        tolerance = TOLERANCE * torch.finfo(start.dtype).eps
    with torch.no_grad():
        state = _iterated(step, start, tolerance, most)
    result = step(state)
    if not result.requires_grad:
        return result
    with torch.enable_grad():
        point = state.detach().requires_grad_()
        image = step(point)

    def solve(gradient: Tensor) -> Tensor:
        def adjoint(a: Tensor) -> Tensor:
            (pulled,) = torch.autograd.grad(image, point, a, retain_graph=True, materialize_grads=True)
            return pulled + gradient  # eq. (1)

        return _iterated(adjoint, gradient, tolerance, most)

    result.register_hook(solve)
    return result


def _iterated(step: Step, state: Tensor, tolerance: float, most: int) -> Tensor:
    if state.is_meta:
        return step(state)
    moved = before = 0.0
    for number in range(1, most + 1):
        after = step(state)
        before, moved, size = moved, _largest(after - state), _largest(after)
        if math.isinf(moved) or (number == most and moved > tolerance * (1 + size)):
            known = before > 0 and math.isfinite(moved)
            ratio = f", {moved / before:.3g} times as far as in the step before" if known else ""
            raise DivergenceError(
                f"the iteration does not come to rest: in step {number} the state still moves by {moved:.2g}{ratio}; "
                "the step must be a contraction (a smaller norm of its weights makes it one)"
            )
        state = after
        if moved <= tolerance * (1 + size):
            break
    return state


def _largest(values: Tensor) -> float:
    """The largest magnitude of all values that are not NaN."""
    return float(values.abs().nan_to_num(0.0, posinf=math.inf).amax()) if values.numel() else 0.0
