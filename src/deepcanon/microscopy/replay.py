"""Recorded torch operations that can be run again, on other values and with the same random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._pytree import TreeSpec, tree_leaves, tree_unflatten

from deepcanon.microscopy.verdict import Array


def array_of(tensor: Tensor) -> Array:
    """A copy of the tensor's value as an array; half precision becomes single precision."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return tensor.cpu().clone().numpy()


@dataclass(frozen=True)
class Dice:
    """The state of the random generators before an operation."""

    common: Tensor
    own: tuple[tuple[Generator, Tensor], ...]

    @classmethod
    def now(cls, arguments: Sequence[Any]) -> Dice:
        own = [argument for argument in arguments if isinstance(argument, Generator)]
        return cls(torch.get_rng_state(), tuple((generator, generator.get_state()) for generator in own))

    def rolled(self) -> bool:
        """Whether random numbers were drawn since."""
        own = any(not torch.equal(generator.get_state(), state) for generator, state in self.own)
        return own or not torch.equal(torch.get_rng_state(), self.common)

    @contextmanager
    def again(self) -> Iterator[None]:
        """A context in which the same random numbers are drawn again; outside, no generator is changed."""
        today = [generator.get_state() for generator, _ in self.own]
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.common)
            for generator, state in self.own:
                generator.set_state(state)
            try:
                yield
            finally:
                for (generator, _), state in zip(self.own, today, strict=True):
                    generator.set_state(state)


@dataclass(eq=False)
class TorchOperation:
    """A recorded call of a torch function, whose tensors can be replaced.

    ``leaves`` and ``spec`` are its arguments, flattened; at the positions ``slots`` stood the tensors. Its outputs are
    those of the tensors it returns that ``fresh`` counts, followed by the arguments it ``changed`` in place.
    """

    function: Callable[..., Any]
    leaves: list[Any]
    spec: TreeSpec
    slots: list[int]
    dtypes: list[torch.dtype]
    wanted: list[bool]
    fresh: list[int]
    changed: list[int]
    dice: Dice | None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        with torch.no_grad():
            return [array_of(output) for output in self._again(self._tensors(inputs))]

    def pull(self, inputs: Sequence[Array], deltas: Sequence[Array | None]) -> list[Array | None]:
        tensors = self._tensors(inputs)
        asked = [tensor.requires_grad_() for tensor, wanted in zip(tensors, self.wanted, strict=True) if wanted]
        with torch.enable_grad():
            outputs = self._again(tensors)
        pairs = [
            (output, torch.from_numpy(delta).to(output.dtype))
            for output, delta in zip(outputs, deltas, strict=True)
            if delta is not None and output.requires_grad
        ]
        if not pairs or not asked:
            return [None] * len(inputs)
        ends, seeds = zip(*pairs, strict=True)
        pulled = iter(torch.autograd.grad(ends, asked, seeds, allow_unused=True, materialize_grads=True))
        return [array_of(next(pulled)) if wanted else None for wanted in self.wanted]

    def _tensors(self, inputs: Sequence[Array]) -> list[Tensor]:
        return [torch.from_numpy(value).to(dtype) for value, dtype in zip(inputs, self.dtypes, strict=True)]

    def _again(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        leaves = list(self.leaves)
        for slot, tensor in zip(self.slots, tensors, strict=True):
            leaves[slot] = tensor.clone() if self.changed else tensor  # what is given may not be written to
        args, kwargs = tree_unflatten(leaves, self.spec)
        if self.dice is None:
            result = self.function(*args, **kwargs)
        else:
            with self.dice.again():
                result = self.function(*args, **kwargs)
        returned = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.layout == torch.strided]
        return [returned[k] for k in self.fresh] + [leaves[i] for i in self.changed]
