"""Weights as safetensors files, which hold numbers only and no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.files import write_whole
from deepcanon.runs.stored_tensors import rounded


def export_weights(module: nn.Module, path: Path, spec: Mapping[str, Any]) -> None:
    """Write all parameters and buffers to ``path``, with the model's description in the file's metadata."""
    # a copy of each: safetensors takes no two tensors that share memory, and tied weights do
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in module.state_dict().items()}
    write_whole(path, save(tensors, metadata={"format": "pt", "deepcanon": json.dumps(spec)}))


def give_weights(module: nn.Module, weights: Mapping[str, Tensor], kind: str) -> None:
    """Load weights under the module's own names, all of them; ``kind`` says in errors which model they should be of.

    >>> give_weights(nn.Linear(2, 3), {"weight": nn.Linear(3, 2).weight}, "Linear")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: the file is not a Linear of this size: it has no bias
    """
    own = module.state_dict()
    missing, unknown = [name for name in own if name not in weights], [name for name in weights if name not in own]
    if missing or unknown:
        word, names = ("has no", missing) if missing else ("also has", unknown)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise UsageError(f"the file is not a {kind} of this size: it {word} {names[0]}{more}")
    for name, parameter in own.items():
        if parameter.shape != weights[name].shape:
            came, wanted = tuple(weights[name].shape), tuple(parameter.shape)
            raise UsageError(f"{name} has the shape {came} in the file and {wanted} in the model: make it of that size")
        if parameter.is_floating_point() != weights[name].is_floating_point():
            raise UsageError(f"{name} is of type {weights[name].dtype} in the file and {parameter.dtype} in the model")
        if rounded(weights[name], parameter):
            raise UsageError(
                f"{name} is {weights[name].dtype} in the file and {parameter.dtype} in the model, which would round "
                "it: give the model that type first, or convert the weights"
            )
    module.load_state_dict(weights)
