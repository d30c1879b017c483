"""A safetensors file holds every parameter and buffer bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

from deepcanon.interop.weights import export_weights


def test_all_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    module[2].weight = module[0].weight  # tied
    path = tmp_path / "model.safetensors"
    spec = {"model": "net", "arguments": {"hidden": [4]}}
    export_weights(module, path, spec)
    with safe_open(str(path), framework="pt") as file:
        again = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (the file is not a dict)
        assert json.loads(file.metadata()["deepcanon"]) == spec
    state = module.state_dict()
    assert again.keys() == state.keys()
    for name, tensor in state.items():
        assert torch.equal(again[name], tensor)
        assert again[name].dtype == tensor.dtype
