"""A recorder of the operations of a torch module, with their inputs, their outputs and the submodule they ran in.

A mode intercepts each call of a torch function. Functions that torch itself writes in Python are opened, so that
multi-head attention is recorded as its products and its softmax, and a custom ``autograd.Function`` as one operation.
Nothing is compiled or traced symbolically, so any control flow and any kind of input or output will do.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import _SingleLevelFunction
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves

from deepcanon.core import UsageError
from deepcanon.microscopy.replay import Dice, TorchOperation, array_of
from deepcanon.microscopy.tape import Group, Place, Record, Tape

INSIDE = (str(Path(torch.__file__).parent), str(Path(__file__).parent), contextlib.__file__)
"""Files of torch, of this package and of Python, whose lines are not the user's own."""
UNSEEN = "unseen"
FORGETS = {
    "new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like",
    "randn_like", "zero_", "fill_", "normal_", "uniform_", "exponential_", "random_",
}  # fmt: skip
"""Operations that take no number from their tensor, only its shape or its memory."""


class Recorder(TorchFunctionMode):
    """The mode under which a module is run; ``names`` gives the kind and name of tensors from outside, by identity."""

    def __init__(self, module: nn.Module, names: Mapping[int, tuple[str, str]]) -> None:
        super().__init__()
        self.module = module
        self.names = names
        self.records: list[Record] = []
        self.groups: list[Group] = []
        self.live: dict[Place, Tensor] = {}
        """The tensor that still holds the value, where it has not been overwritten since."""
        self._places: dict[int, Place] = {}
        self._sharing: dict[int, list[Tensor]] = {}  # by memory; kept alive, lest another tensor gets its identity
        self._stack: list[int] = []
        self._calls: dict[tuple[int | None, str], int] = {}
        self._opened: list[Callable[..., Any]] = []
        self._within_custom = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """A context in which everything that torch computes is recorded."""
        handles = []
        for name, module in self.module.named_modules():
            if name:
                handles.append(module.register_forward_pre_hook(self._entering(name)))
                handles.append(module.register_forward_hook(self._leaving, always_call=True))
        recorder = self

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return recorder._custom_function(cls, args, kwargs)

        # below Function.apply, so that a function that was kept as `clip = Clip.apply` is recorded, too
        custom: Any = _SingleLevelFunction
        custom.apply = classmethod(apply)
        try:
            with self:
                yield
        finally:
            del custom.apply
            for handle in handles:
                handle.remove()

    def tape(self, loss: Tensor) -> tuple[Tape, dict[int, int]]:
        """The records on which the loss depends, and the new number of each record that stays."""
        tape, moved = Tape(self.records, self.groups, self._source(loss)).pruned()
        for record in tape.records:
            if record.op == UNSEEN:
                raise UsageError(
                    f"a value of shape {record.values[0].shape} ({record.name}) was computed where the microscope "
                    "cannot record it: in a compiled or scripted part, or by a derivative that is taken within the "
                    "loss; give it a part of the model that is plain PyTorch"
                )
        return tape, moved

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._within_custom:
            return func(*args, **kwargs)
        if isinstance(func, types.FunctionType) and func not in self._opened:
            self._opened.append(func)
            try:
                with self:
                    return _opened(func)(*args, **kwargs)
            finally:
                self._opened.pop()
        return self._call(func, _name(func), args, kwargs)

    def _custom_function(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            return super(_SingleLevelFunction, cls).apply(*args, **kwargs)  # type: ignore[misc]

        if self._within_custom:
            return run(*args, **kwargs)
        self._within_custom = True
        try:
            return self._call(run, cls.__name__, args, kwargs)
        finally:
            self._within_custom = False

    def _call(self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        slots = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.layout == torch.strided]
        places = [self._source(leaves[i]) for i in slots]
        wanted = [leaves[i].requires_grad for i in slots]
        versions = [leaves[i]._version for i in slots]
        dtypes = [leaves[i].dtype for i in slots]
        dice = Dice.now(leaves)
        result = func(*args, **kwargs)
        changed = [i for i, version in zip(slots, versions, strict=True) if leaves[i]._version != version]
        returned = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.layout == torch.strided]
        fresh = [k for k, tensor in enumerate(returned) if id(tensor) not in self._places]
        outputs = [*(returned[k] for k in fresh), *(leaves[i] for i in changed)]
        if outputs:
            arguments = [None if i in slots else leaf for i, leaf in enumerate(leaves)]
            operation = TorchOperation(
                func, arguments, spec, slots, dtypes, wanted, fresh, changed, dice if dice.rolled() else None
            )
            if name in FORGETS and len(slots) == 1:
                self._record(name, [], [], outputs, None)
            else:
                self._record(name, places, wanted, outputs, operation)
            self.records[-1].call = f"{name}({_written(args, kwargs)})"
            for i in changed:
                self._write_through(leaves[i])
        return result

    def _record(
        self,
        name: str,
        places: list[Place],
        wanted: list[bool],
        outputs: list[Tensor],
        operation: TorchOperation | None,
    ) -> None:
        group = self._stack[-1] if self._stack else None
        record = Record(name, name, [array_of(output) for output in outputs], group, _where(), inputs=places)
        comes_back = any(output.requires_grad for output in outputs)
        real = any(output.is_floating_point() or output.is_complex() for output in outputs)
        record.flows = [want and comes_back for want in wanted]
        record.cut = [want and real and not comes_back for want in wanted]
        record.operation = operation
        self.records.append(record)
        for k, output in enumerate(outputs):
            self._keep(output, (len(self.records) - 1, k))

    def _source(self, tensor: Tensor) -> Place:
        """The record and output that made the value of a tensor; an unrecorded tensor comes from outside."""
        place = self._places.get(id(tensor))
        if place is None:
            kind, name = self.names.get(id(tensor), ("constant", "constant"))
            if kind == "constant" and tensor.grad_fn is not None:
                kind, name = UNSEEN, tensor.grad_fn.name()
            within = self._stack[-1] if self._stack and kind != "input" else None
            self.records.append(Record(kind, name, [array_of(tensor)], within))
            place = (len(self.records) - 1, 0)
            self._keep(tensor, place)
        return place

    def _keep(self, tensor: Tensor, place: Place) -> None:
        old = self._places.get(id(tensor))
        if old is None:
            self._sharing.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
        else:
            self.live.pop(old, None)
        self._places[id(tensor)] = place
        self.live[place] = tensor

    def _write_through(self, written: Tensor) -> None:
        """Record what a change in place does to the other tensors in the same memory."""
        for other in self._sharing[written.untyped_storage().data_ptr()]:
            number, output = self._places[id(other)]
            before = self.records[number].values[output]
            if other is written or other.dtype != written.dtype or (array_of(other) == before).all():
                continue
            size = written.untyped_storage().nbytes() // written.element_size()
            layouts = [(tuple(t.shape), t.stride(), t.storage_offset()) for t in (other, written)]
            leaves, spec = tree_flatten(((None, None, size, *layouts), {}))
            slots = [i for i, leaf in enumerate(leaves) if leaf is None]
            wanted = [other.requires_grad, written.requires_grad]
            operation = TorchOperation(
                _seen_again, leaves, spec, slots, [other.dtype, written.dtype], wanted, [0], [], None
            )
            self._record("write_through", [(number, output), self._places[id(written)]], wanted, [other], operation)
            for tensor in (other, written):  # torch now derives one from the other, and its deltas share out otherwise
                self.live.pop(self._places[id(tensor)], None)

    def _entering(self, name: str) -> Callable[[nn.Module, Any], None]:
        def enter(module: nn.Module, _: Any) -> None:
            parent = self._stack[-1] if self._stack else None
            call = self._calls[parent, name] = self._calls.get((parent, name), 0) + 1
            label = name if call == 1 else f"{name} (call {call})"  # else a module used twice would close a circle
            self.groups.append(Group(len(self.groups), parent, label, type(module).__name__))
            self._stack.append(len(self.groups) - 1)

        return enter

    def _leaving(self, *_: Any) -> None:
        self._stack.pop()


def _opened(function: types.FunctionType) -> Callable[..., Any]:
    """The function without its first check, whether a tensor overrides ``__torch_function__``."""
    checks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    scope = {**function.__globals__, **dict.fromkeys(checks, _nobody)}
    opened = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


def _nobody(*_: Any) -> bool:
    return False


def _seen_again(old: Tensor, new: Tensor, size: int, of_old: tuple[Any, ...], of_new: tuple[Any, ...]) -> Tensor:
    """The value of a view after another view of the same memory was written to; layouts are shape, strides, offset."""
    cells = [torch.arange(size).as_strided(*layout) for layout in (of_old, of_new)]
    memory = old.new_zeros(size)
    for value, where in zip((old, new), cells, strict=True):
        memory = memory.index_put((where,), value)
    return memory[cells[0]]


def _name(function: Callable[..., Any]) -> str:
    """The name of an operation: add for ``Tensor.__add__``, T for the property ``Tensor.T``."""
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        name = getattr(function, "__self__").__name__  # noqa: B009
    return name.strip("_") + ("_" if name.endswith("_") and not name.startswith("_") else "")


def _written(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The arguments of a call, its tensors as a, b, c ..."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")

    def words(value: Any) -> str:
        if isinstance(value, Tensor):
            return next(letters, "...")
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(words, value))}]"
        if isinstance(value, slice):
            ends = ["" if end is None else words(end) for end in (value.start, value.stop, value.step)]
            return ":".join(ends if ends[2] else ends[:2])
        return str(value) if isinstance(value, bool | int | float | str | torch.dtype) or value is None else "..."

    parts = [*map(words, args), *(f"{name}={words(value)}" for name, value in kwargs.items())]
    return ", ".join(parts)[:120]


def _where() -> str:
    """The user's line that is being run, as ``file.py:12``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        frame = frame.f_back
    if frame.f_code.co_filename.startswith(INSIDE):
        return ""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
