"""Nested states (of optimizers, observers, generators) as plain JSON plus named tensors, and back, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
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


def unflatten(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(plain, list):
        return [unflatten(item, tensors) for item in plain]
    if not isinstance(plain, dict):
        return plain
    match plain.get(_MARK):
        case None:
            return {key: unflatten(item, tensors) for key, item in plain.items()}
        case "tensor":
            return tensors[plain["name"]]
        case "tuple":
            return tuple(unflatten(item, tensors) for item in plain["items"])
        case "dict":
            return {unflatten(key, tensors): unflatten(item, tensors) for key, item in plain["items"]}
        case "float":
            return float(plain["value"])
        case other:
            raise CheckpointError(f"the checkpoint holds a value of unknown kind {other!r}: made by a newer version?")


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
