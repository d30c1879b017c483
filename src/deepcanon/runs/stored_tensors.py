"""Tensors from safetensors files, held to what a model has: their names, shapes and types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from deepcanon.core import CheckpointError

HEADER = 2**20
"""Bytes for the header of a file, and again so many for each thousand tensors."""

REMEDY = "if another version of deepcanon wrote it, load it by that version, or train the model again"


def bytes_of(tensors: Mapping[str, Tensor]) -> int:
    """The most bytes that a file of these tensors can have."""
    content = sum(tensor.numel() * max(8, tensor.element_size()) for tensor in tensors.values())
    return content + HEADER * (1 + len(tensors) // 1000)


def load_tensors(content: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, which holds numbers and no code; any other file is refused."""
    try:
        return safetensors.torch.load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).splitlines()[0][:200]
        raise CheckpointError(f"{path} is not a safetensors file that can be read: {reason}") from error


def check_tensors(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], path: Path) -> None:
    """Refuse tensors that are not those of a model: missing ones, others, other shapes or types, and NaN."""
    for name in expected.keys() - found.keys():
        raise CheckpointError(f"{path} lacks {name}, which the model in run.json has; {REMEDY}")
    for name in found.keys() - expected.keys():
        raise CheckpointError(f"{path} has {name[:100]!r}, which the model in run.json does not have; {REMEDY}")
    for name, tensor in expected.items():
        given = found[name]
        fits = isinstance(given, Tensor) and (given.shape, _kind(given)) == (tensor.shape, _kind(tensor))
        if not fits or rounded(given, tensor):
            was = f"{tuple(given.shape)} {given.dtype}" if isinstance(given, Tensor) else type(given).__name__
            raise CheckpointError(
                f"{path}: {name} is {was}, and {tuple(tensor.shape)} {tensor.dtype} in the model of run.json; {REMEDY}"
            )
        if given.isnan().any():
            raise CheckpointError(
                f"{path}: {name} holds NaN, with which nothing can be computed; train the model again"
            )


def floating_type(tensors: Mapping[str, Tensor]) -> str | None:
    """The type that all real numbers of a model have; None where they have several.

    >>> floating_type({"weight": torch.zeros(2).double(), "steps": torch.tensor(3)})
    'float64'
    """
    types = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    return str(types.pop()).removeprefix("torch.") if len(types) == 1 else None


def rounded(given: Tensor, to: Tensor) -> bool:
    """Whether numbers would lose digits by taking the place of others."""
    return given.is_floating_point() and given.dtype.itemsize > to.dtype.itemsize


def _kind(tensor: Tensor) -> tuple[bool, bool, bool]:
    """The kind of a tensor's numbers; those in the file may have fewer digits."""
    return tensor.is_floating_point(), tensor.is_complex(), tensor.dtype == torch.bool
