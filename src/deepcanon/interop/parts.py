"""Parts of a model: finding one by name, and what the model feeds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.hints import did_you_mean


def part_of(module: nn.Module, name: str) -> nn.Module:
    """The part of this name, which may have dots.

    >>> part_of(nn.Sequential(nn.Linear(2, 3), nn.Tanh()), "1")
    Tanh()
    """
    parts: dict[str, nn.Module] = dict(module.named_modules())
    parts.pop("")
    if name in parts:
        return parts[name]
    children = ", ".join(child for child, _ in module.named_children())
    raise UsageError(
        f"the model has no part {name!r}; {did_you_mean(name, parts, 'it has ' + (children or 'no parts'))}"
    )


@torch.no_grad()
def inputs_of(part: nn.Module, calls: Iterable[Callable[[], Any]]) -> tuple[Tensor, ...] | None:
    """What ``part`` is given by the first of the ``calls`` that uses it."""
    seen: list[tuple[Tensor, ...]] = []
    hook = part.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    try:
        for call in calls:
            call()
            if seen:
                return seen[0]
    finally:
        hook.remove()
    return None
