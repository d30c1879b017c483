"""AMSGrad as in its paper, without the bias correction of Adam."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from deepcanon.optim._state import buffer, evaluated


class AMSGrad(torch.optim.Optimizer):
    r"""The AMSGrad optimizer: Adam that divides by the largest second moment so far, without bias correction.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        \hat v \leftarrow \max(\hat v, v), \quad \theta \leftarrow \theta - \alpha_t\, m / (\sqrt{\hat v} + \varepsilon)

    So the effective learning rate of a weight never grows. The paper's learning rate is :math:`\alpha_t = \alpha /
    \sqrt t`, which is the schedule ``power:exponent=-0.5,scale=1``. In torch ``adam:amsgrad=true`` divides :math:`\hat
    v` by :math:`1 - \beta_2^t`, the bias correction of Adam, and so lets its steps grow again. The :math:`\varepsilon`
    is Adam's; the paper has none.

    References:
        | On the convergence of Adam and beyond (Reddi, Kale and Kumar, 2018), https://arxiv.org/abs/1904.09237

    Arguments:
        params: The parameters, or groups of them.
        lr: The learning rate :math:`\alpha`.
        betas: The decay rates :math:`\beta_1` and :math:`\beta_2` of the two moments.
        eps: The :math:`\varepsilon` that keeps the denominator away from zero.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas are the decay rates of the moments, from 0 to below 1 (got {betas})")
        if eps < 0:
            raise ValueError(f"eps is at least 0 (got {eps})")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = evaluated(closure)
        for group in self.param_groups:
            first, second = group["betas"]
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            gradients = [weight.grad for weight in weights]
            means, squares, largest = (
                [buffer(self, weight, name) for weight in weights] for name in ("mean", "square", "largest")
            )
            torch._foreach_lerp_(means, gradients, 1 - first)
            torch._foreach_mul_(squares, second)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
            torch._foreach_maximum_(largest, squares)
            divisors = torch._foreach_sqrt(largest)
            torch._foreach_add_(divisors, group["eps"])
            torch._foreach_addcdiv_(weights, means, divisors, -group["lr"])
        return loss
