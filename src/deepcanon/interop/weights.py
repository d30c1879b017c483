"""Weights as safetensors files, which hold numbers only and no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import nn

from deepcanon.train.files import write_whole


def export_weights(module: nn.Module, path: Path, spec: Mapping[str, Any]) -> None:
    """Write all parameters and buffers to ``path``, with the model's description in the file's metadata."""
    # a copy of each: safetensors takes no two tensors that share memory, and tied weights do
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in module.state_dict().items()}
    write_whole(path, save(tensors, metadata={"format": "pt", "deepcanon": json.dumps(spec)}))
