"""Tensors measured before they are made, so that what does not fit into memory is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from deepcanon.core.errors import MemoryLimitError
from deepcanon.core.memory import UNNOTICED, need, ran_out, sentence_about

FACTORIES = frozenset({
    torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.randint, torch.randperm,
    torch.arange, torch.linspace, torch.logspace, torch.eye,
})  # fmt: skip
"""The functions that make a tensor of a given size."""

MOST_TENSORS = 10_000
"""A model of more tensors than these takes long to be built, and longer for every step."""


class Metered(TorchFunctionMode):
    """Inside, a tensor of a given size is made only if it fits into memory; its size is that of one without values.

    >>> with Metered("a matrix"):
    ...     torch.zeros(10**9, 10**9)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.MemoryLimitError: a matrix has a tensor of 1000000000 x 1000000000 numbers, which needs ...
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.made = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        try:
            if func in FACTORIES:
                self._check(func, args, kwargs)
            return func(*args, **kwargs)
        except Exception as error:
            if isinstance(error, MemoryLimitError) or not ran_out(error):
                raise
            raise MemoryLimitError(f"{self.what}: {sentence_about(error)}; take smaller sizes") from error

    def _check(self, factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.made += 1
        if self.made > MOST_TENSORS:
            raise MemoryLimitError(f"{self.what} has more than {MOST_TENSORS:,} tensors; take fewer layers or parts")
        plain = {name: value for name, value in kwargs.items() if name not in ("generator", "out", "pin_memory")}
        made = factory(*args, **{**plain, "device": "meta"})
        if made.nbytes > UNNOTICED and str(kwargs.get("device") or torch.get_default_device()) != "meta":
            shape = " x ".join(map(str, made.shape))
            need(made.nbytes, f"{self.what} has a tensor of {shape} numbers, which", "take smaller sizes")
