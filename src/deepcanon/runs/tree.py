"""Nested states (of optimizers, observers, generators) as plain JSON plus named tensors, and back, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from deepcanon.core import CheckpointError

_MARK = "$"


def flatten(tree: Any) -> tuple[Any, dict[str, Tensor]]:
    """The tree with each tensor replaced by its name, and the tensors by name.

    >>> import torch
    >>> plain, tensors = flatten({"a": [torch.ones(2), 0.1], 3: (None, float("inf"))})
    >>> sorted(tensors)
    ['a/0']
    >>> unflatten(plain, tensors)
    {'a': [tensor([1., 1.]), 0.1], 3: (None, inf)}
    """
    tensors: dict[str, Tensor] = {}
    return _flatten(tree, (), tensors), tensors


def unflatten(plain: Any, tensors: Mapping[str, Tensor], path: Path = Path("state.json")) -> Any:
    """The tree again; ``path`` is the file that it was read from, to be named where that holds something else."""
    if isinstance(plain, list):
        return [unflatten(item, tensors, path) for item in plain]
    if not isinstance(plain, dict):
        return plain
    match plain:
        case {"$": "tensor", "name": str(name)} if name in tensors:
            return tensors[name]
        case {"$": "tuple", "items": [*items]}:
            return tuple(unflatten(item, tensors, path) for item in items)
        case {"$": "dict", "items": [*items]} if all(isinstance(pair, list) and len(pair) == 2 for pair in items):
            return {_key(unflatten(key, tensors, path), path): unflatten(item, tensors, path) for key, item in items}
        case {"$": "float", "value": "inf" | "-inf" | "nan" as value}:
            return float(value)
        case {"$": kind}:
            raise CheckpointError(f"{path} holds a {str(kind)[:50]!r} that cannot be read: made by a newer version?")
    return {key: unflatten(item, tensors, path) for key, item in plain.items()}


def _key(key: Any, path: Path) -> Any:
    """A key of a dictionary, which is a plain value."""
    if isinstance(key, dict | list | Tensor):
        raise CheckpointError(f"{path} holds a dictionary one of whose keys is a {type(key).__name__}")
    return key


def _flatten(tree: Any, path: tuple[str, ...], tensors: dict[str, Tensor]) -> Any:
    if isinstance(tree, Tensor):
        name = "/".join(path) or "tensor"
        tensors[name] = tree
        return {_MARK: "tensor", "name": name}
    if isinstance(tree, float) and not math.isfinite(tree):
        return {_MARK: "float", "value": repr(tree)}
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    if isinstance(tree, list | tuple):
        items = [_flatten(item, (*path, str(place)), tensors) for place, item in enumerate(tree)]
        return items if isinstance(tree, list) else {_MARK: "tuple", "items": items}
    if isinstance(tree, Mapping):
        pairs = [(key, _flatten(item, (*path, str(key)), tensors)) for key, item in tree.items()]
        if all(isinstance(key, str) and key != _MARK for key in tree):
            return dict(pairs)
        return {_MARK: "dict", "items": [[_flatten(key, path, tensors), item] for key, item in pairs]}
    raise CheckpointError(f"{'/'.join(path)} is a {type(tree).__name__}, which a checkpoint cannot hold")
