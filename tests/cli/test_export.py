"""Trained models written as ONNX and safetensors files from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import deepcanon as dc

Call = Callable[..., Any]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "part", "shape"), [("mlp", None, (1, 8, 8)), ("vae", "decoder", (3,))])
def test_onnx_files_compute_what_the_model_computes(
    model: str, part: str | None, shape: tuple[int, ...], call: Call, runs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxscript", reason="needs deepcanon[onnx]")
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs deepcanon[onnx]")
    out = tmp_path / "model.onnx"
    answer = call("export", runs / model, "--to", out, *(("--part", part) if part else ()), "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["difference"] < 1e-5
    whole = dc.load(runs / model)
    module = whole if part is None else whole.get_submodule(part)
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    (name,) = [node.name for node in session.get_inputs()]
    about = session.get_modelmeta().custom_metadata_map
    assert (about["model"], about["kind"], about.get("part")) == (model, "images", part)
    assert json.loads(about["labels"]) == [str(digit) for digit in range(10)]
    for size in (1, 4, 7):
        x = torch.randn(size, *shape, generator=torch.Generator().manual_seed(size))
        with torch.no_grad():
            ours = module(x)
        (theirs,) = session.run(None, {name: x.numpy()})
        assert ours.shape == theirs.shape
        assert (ours - torch.from_numpy(theirs)).abs().max() < 1e-5


def test_weights_are_written_with_their_names(call: Call, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "decoder.safetensors"
    answer = call("export", runs / "vae", "--to", out, "--part", "decoder")
    assert "The decoder of vae is in" in answer.stdout
    state = dc.load(runs / "vae").get_submodule("decoder").state_dict()
    again = load_file(out)
    assert again.keys() == state.keys()
    assert all(torch.equal(again[name], tensor) for name, tensor in state.items())


def test_parts_and_kinds_of_files_that_are_not_there(call: Call, runs: Path, tmp_path: Path) -> None:
    for words, sentence in (
        (("--to", tmp_path / "x.onnx", "--part", "decodr"), "did you mean decoder?"),
        (("--to", tmp_path / "x.pt"), "must end in .onnx or .safetensors"),
    ):
        answer = call("export", runs / "vae", *words)
        assert answer.code == 2
        assert sentence in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_no_parts_and_no_map_has_only_weights_to_export(call: Call, tmp_path: Path) -> None:
    call("train", "gaussian", "--data", "moons", "--out", tmp_path / "run")
    answer = call("export", tmp_path / "run", "--to", tmp_path / "x.onnx")
    sentence = "gaussian is not a single map; export its weights to .safetensors"
    assert (answer.code, answer.stderr) == (2, f"deepcanon: {sentence}\n")
    assert call("export", tmp_path / "run", "--to", tmp_path / "x.safetensors").code == 0


def test_the_columns_that_a_file_takes_are_said(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{i % 7},{'ab'[i % 2]},{'yes' if i % 7 > 3 else 'no'}" for i in range(40)]
    (tmp_path / "rows.csv").write_text("age,kind,ill\n" + "\n".join(lines) + "\n")
    call("train", "mlp", "--data", tmp_path / "rows.csv", "--target", "ill", "--steps", "1", "--out", tmp_path / "run")
    monkeypatch.setattr("deepcanon.runs.exporting.export_onnx", lambda *_, **__: 0.0)
    answer = call("export", tmp_path / "run", "--to", tmp_path / "x.onnx")
    assert "It takes the columns of the table by name (age, kind) and gives predictions" in " ".join(
        answer.stdout.split()
    )
    assert call("export", tmp_path / "run", "--to", tmp_path / "x.onnx", "--json").json["columns"] == ["age", "kind"]
    assert "by name" not in call("export", tmp_path / "run", "--to", tmp_path / "x.onnx", "--forward").stdout
