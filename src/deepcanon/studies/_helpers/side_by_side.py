"""Many networks of one architecture trained at once (vectorized), each on its own targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from deepcanon.core import Model


def fit_side_by_side(
    models: Sequence[Model[Any]], x: Tensor, y: Tensor, *, steps: int, lr: float
) -> Callable[[Tensor], Tensor]:
    """Fit R networks to the targets (R, n, targets) of n common inputs by Adam on the squared error of all examples.

    The function that is returned gives the outputs of each network at inputs (m, ...): (R, m, targets). Adam is
    elementwise, so that the networks do not influence each other; they only share the time it takes to call torch.
    """
    parameters, buffers = stack_module_state(list(models))
    leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}

    def one(own: Mapping[str, Tensor], fixed: Mapping[str, Tensor], at: Tensor) -> Tensor:
        output: Tensor = functional_call(models[0], (dict(own), dict(fixed)), (at,))
        return output

    every = vmap(one, in_dims=(0, 0, None))
    optimizer = torch.optim.Adam(leaves.values(), lr=lr)
    for _ in range(steps):
        loss = (every(leaves, buffers, x) - y).square().sum(-1).mean(-1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def outputs(at: Tensor) -> Tensor:
        return every(leaves, buffers, at)

    return outputs
