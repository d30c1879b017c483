"""Storages: flat memory that tensors are views of, with a guard against writes to what a derivative still needs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from sys import getrefcount
from typing import Any

import numpy as np

from deepcanon.tensor.errors import GradientError
from deepcanon.tensor.layout import Layout
from deepcanon.tensor.operation import Node


class Storage:
    """A flat buffer, how often it was written to, and the recorded values that lie in it."""

    __slots__ = ("buffer", "nodes", "version")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        owner = array.base if isinstance(array.base, np.ndarray) else array
        flat = owner.ravel(order="K")
        self.buffer = flat if np.may_share_memory(flat, owner) or not owner.size else array.reshape(-1)
        self.version = 0
        self.nodes: list[weakref.ref[Node]] = []

    def layout_of(self, array: np.ndarray[Any, Any]) -> Layout:
        """The layout of a view of this storage."""
        size = array.itemsize
        offset = (_address(array) - _address(self.buffer)) // size if array.size else 0
        return Layout(array.shape, tuple(stride // size for stride in array.strides), offset)

    def view(self, layout: Layout) -> np.ndarray[Any, Any]:
        """The elements at a layout, as an array that shares this memory."""
        size = self.buffer.itemsize
        return np.ndarray(
            layout.shape,
            self.buffer.dtype,
            self.buffer,
            layout.offset * size,
            tuple(stride * size for stride in layout.strides),
        )

    def watch(self, node: Node) -> None:
        """Remember a recorded value that lies here."""
        self.nodes.append(weakref.ref(node))

    def prepare_write(self, own: Node | None) -> None:
        """Refuse a write that would spoil a derivative; count it otherwise.

        A value that nobody but its own tensor holds has no operation left that could need it: this is the usual case,
        found without a search. ``own`` is the node of the tensor that is written to.
        """
        self.nodes = [ref for ref in self.nodes if ref() is not None]
        for ref in self.nodes:
            node = ref()
            if node is None or (node is own and node.op is None and _references(own) <= _UNUSED):
                continue
            for user in (node, *_users(node)):
                if user.op is not None and user.op.reads and user.parents:
                    raise GradientError(
                        f"this write would spoil a derivative: {user.op.name}, which made a tensor of shape "
                        f"{user.value.shape}, still needs the value of shape {node.value.shape} as it is; write to a "
                        "copy, use set_at(x, index, value), or take the gradients first"
                    )
        self.version += 1


def _references(node: Node) -> int:
    """How many references to a node there are while the guard checks it."""
    return getrefcount(node)


def _unused() -> int:
    """What the guard counts for a node that only a tensor holds; it depends on the version of Python."""

    def guard(own: Node) -> int:
        node = weakref.ref(own)()
        return _references(own) if node is own else 0

    holder = [Node.leaf(np.zeros(1), needs=True)]
    return guard(holder[0])


_UNUSED = _unused()


def _users(node: Node) -> Iterator[Node]:
    """The living results that were computed from a node: a search among all objects, so for doubtful cases only."""
    for parents in gc.get_referrers(node):
        if type(parents) is tuple:
            yield from (user for user in gc.get_referrers(parents) if type(user) is Node and user.parents is parents)


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
