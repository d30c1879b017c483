"""Receptive fields of every tensor of a computation, position by position, for networks of any shape.

A mode follows each operation of torch's lowest level (ATen), so that branches, strided slices and functions without a
module are followed as layers are.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from deepcanon.insights._engines.input_window_rules import Operation, rule_of, unknown
from deepcanon.insights._engines.input_windows import Footprint, Window, joined, spread, vague


class Footprints(TorchDispatchMode):
    """The mode that follows receptive fields while a network is run on ``x``, (B, channels, positions ...)."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        zero = Fraction(0)
        whole = tuple(
            Window(axis, Fraction(1), zero, zero, zero, Fraction(x.shape[axis] - 1)) for axis in range(2, x.ndim)
        )
        # Tensors are kept with their receptive fields, so that neither their identity nor their memory is reused.
        self._known: dict[int, tuple[Tensor, Footprint]] = {id(x): (x, whole)}
        self._written: dict[int, tuple[Tensor, Footprint]] = {}  # by memory: what was written into parts of it

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Do not skip: torch would load its whole compiler only to keep it away from here."""
        return False

    def of(self, tensor: Tensor) -> Footprint | None:
        """The receptive field of the tensor; None if it does not depend on the input."""
        found = [entry[1] for entry in (self._known.get(id(tensor)), self._written.get(_memory(tensor))) if entry]
        if len(found) < 2:
            return found[0] if found else None
        return joined([spread(footprint, tensor.shape) for footprint in found])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        seen = [(tensor, footprint) for tensor in given if (footprint := self.of(tensor)) is not None]
        result = func(*args, **kwargs)
        if not seen:
            return result
        names = [argument.name for argument in func._schema.arguments]
        defaults = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
        arguments = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        rule = rule_of(func)
        for output in tree_leaves(result):
            if isinstance(output, Tensor):
                operation = Operation(arguments, seen, output)
                self._keep(output, rule(operation) or unknown(operation), func._schema.is_mutable)
        return result

    def _keep(self, output: Tensor, found: Footprint, changed: bool) -> None:
        if changed and output._is_view() and found != self.of(output):
            _, earlier = self._written.get(_memory(output), (None, None))
            within = vague(spread(found, output.shape))
            self._written[_memory(output)] = (output, joined([earlier, within]) if earlier else within)
        else:
            self._known[id(output)] = (output, found)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
