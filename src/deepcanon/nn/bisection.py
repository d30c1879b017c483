"""The inverse of increasing functions by bisection, with the gradients of the implicit function theorem."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Increasing = Callable[[Tensor], tuple[Tensor, Tensor]]
"""An increasing function of each number: its values and its slopes, which are above 0."""


def bisection(function: Increasing, target: Tensor, low: Tensor, high: Tensor) -> Tensor:
    r"""The x between ``low`` and ``high`` with :math:`f(x) = y`, for each ``target`` y; there must be one.

    The interval is halved once for every bit of the precision, so that nothing is left to iterate. What the function
    and the target depend on gets its gradient:

    .. math:: \frac{dx}{dy} = \frac{1}{f'(x)}, \qquad \frac{dx}{d\theta} = -\frac{1}{f'(x)} \frac{df}{d\theta}

    >>> y = torch.tensor([8.0], requires_grad=True)
    >>> x = bisection(lambda x: (x**3, 3 * x**2), y, torch.tensor([0.0]), torch.tensor([8.0]))
    >>> x.backward()
    >>> f"{x.item():.5f} {y.grad.item():.5f}"
    '2.00000 0.08333'
    """
    with torch.no_grad():
        for _ in range(2 - int(math.log2(torch.finfo(target.dtype).eps))):
            middle = (low + high) / 2
            above = function(middle)[0] > target
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        x = (low + high) / 2
    for _ in range(2):  # steps of Newton that change nothing but derivatives: two, so that second ones are right, too
        value, slope = function(x)
        gap = value - target
        x = x - (gap - gap.detach()) / slope
    return x
