"""The anatomy of a model: which layers are called in what order, and which parameters a loss reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Called:
    """A call of a layer: its name, itself, its first input and its output."""

    name: str
    module: nn.Module
    input: Any
    output: Any


@contextmanager
def recorded(model: nn.Module) -> Iterator[list[Called]]:
    """All calls of the modules without children, in their order."""
    calls: list[Called] = []
    hooks = []
    for name, module in model.named_modules():
        if next(module.children(), None) is None:

            def keep(module: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
                calls.append(Called(name, module, inputs[0] if inputs else None, output))

            hooks.append(module.register_forward_hook(keep))
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def reached(loss: Tensor) -> list[Tensor]:
    """The leaves that a loss depends on, by its graph."""
    found: dict[int, Tensor] = {}
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor):
            found[id(variable)] = variable
        waiting += [parent for parent, _ in node.next_functions]
    return list(found.values())


def names_of(model: nn.Module) -> dict[int, str]:
    return {id(parameter): name for name, parameter in model.named_parameters()}


class Operations(TorchFunctionMode):
    """The functions of torch that a call uses, of those that are wanted: their names, arguments and results."""

    def __init__(self, wanted: frozenset[str]) -> None:
        super().__init__()
        self.wanted = wanted
        self.seen: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.results: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        result = func(*args, **(kwargs or {}))
        if name in self.wanted:
            self.seen.append((name, args, kwargs or {}))
            self.results.append(result)
        return result


class NotFinite(Exception):
    """An operation gave NaN or an infinite number from finite ones."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


class FiniteOnly(TorchDispatchMode):
    """Stops at the first operation that makes NaN or an infinite number of finite numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        outputs = result if isinstance(result, tuple | list) else (result,)
        if any(_bad(output) for output in outputs) and not any(_bad(each) for each in _flat(args)):
            name = str(getattr(func, "overloadpacket", func)).removeprefix("aten.")
            if name not in QUIET:
                raise NotFinite(name)
        return result


QUIET = frozenset(
    {
        "full", "full_like", "masked_fill", "masked_fill_", "empty", "empty_like", "where", "fill_", "new_empty",
        "empty_strided", "triu", "tril", "scalar_tensor", "new_full", "clone", "lift_fresh", "_to_copy",
    }
)  # fmt: skip
"""Operations that make infinite numbers on purpose (masks) or have no values yet."""


def _flat(args: Any) -> Iterator[Any]:
    for each in args:
        if isinstance(each, tuple | list):
            yield from _flat(each)
        else:
            yield each


def _bad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and not bool(torch.isfinite(value).all())


def first_bad_operation(call: Callable[[], Any]) -> str | None:
    """The first operation of a call that makes NaN or an infinite number of finite ones."""
    try:
        with FiniteOnly():  # type: ignore[no-untyped-call]
            call()
    except NotFinite as found:
        return found.operation
    return None
