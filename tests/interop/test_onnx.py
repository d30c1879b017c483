"""An ONNX file computes what its module computes, for batches of every size."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import DeepcanonError, UsageError
from deepcanon.interop import onnx as our_onnx
from deepcanon.interop.onnx import export_onnx

pytest.importorskip("onnxscript", reason="needs deepcanon[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs deepcanon[onnx]")


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Dropout(0.5), nn.BatchNorm1d(5))

    def forward(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        z = self.net(x.flatten(1)) * scale
        return z, z.sum(-1)


def run(path: Path, *inputs: Tensor) -> list[Tensor]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    outputs = session.run(None, {name: x.numpy() for name, x in zip(names, inputs, strict=True)})
    return [torch.from_numpy(output) for output in outputs]


@pytest.mark.slow
def test_every_output_agrees_at_batch_sizes_the_example_did_not_have(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = TwoOutputs()
    path = tmp_path / "model.onnx"
    difference = export_onnx(module, (torch.randn(2, 2, 2, 2), torch.randn(2, 1)), path)
    assert difference is not None
    assert difference < 1e-5
    assert module.training, "exporting leaves the module in the mode it was in"
    module.eval()
    for size in (1, 4, 7):
        x, scale = torch.randn(size, 2, 2, 2), torch.randn(size, 1)
        for ours, theirs in zip(module(x, scale), run(path, x, scale), strict=True):
            assert ours.shape == theirs.shape
            assert (ours - theirs).abs().max() < 1e-5
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.slow
def test_a_file_that_computes_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = our_onnx._convert

    def wrong(module: nn.Module, inputs: tuple[Tensor, ...]) -> bytes:
        altered = nn.Linear(3, 2)
        altered.load_state_dict({name: 1.01 * value for name, value in module.state_dict().items()})
        return right(altered, inputs)

    monkeypatch.setattr(our_onnx, "_convert", wrong)
    with pytest.raises(DeepcanonError, match="differs from the model by"):
        export_onnx(nn.Linear(3, 2), (torch.randn(2, 3),), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_onnx_cannot_represent_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(DeepcanonError, match="Branches cannot be written as ONNX") as raised:
        export_onnx(Branches(), (torch.randn(2, 3),), tmp_path / "model.onnx")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else there(name))
    with pytest.raises(UsageError, match=r'needs onnxscript; install .* pip install "deepcanon\[onnx\]"'):
        export_onnx(nn.Linear(3, 2), (torch.randn(2, 3),), tmp_path / "model.onnx")
