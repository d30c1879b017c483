"""Weights come back with all their digits, or with a sentence that says why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import deepcanon as dc
from deepcanon.core import CheckpointError, Terms, UsageError
from deepcanon.interop.weights import give_weights
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.stored_tensors import check_tensors
from deepcanon.train.observers import Observer
from deepcanon.train.trainer import Trainer


def doubles() -> dc.Dataset[dc.Labeled]:
    x = torch.randn(60, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    data = dc.from_tensors(x, (x[:, 0] > 0).long())
    return replace(data, name="doubles")


def new() -> MLP:
    torch.manual_seed(0)
    return MLP(features=3, classes=2, hidden=(4,)).double()


def test_a_model_in_double_precision_is_loaded_and_resumed_to_the_last_bit(tmp_path: Path) -> None:
    data, trained = doubles(), new()
    dc.fit(trained, data, epochs=4, out=tmp_path / "whole", quiet=True, keep_weights="last")
    assert RunFolder.open(tmp_path / "whole").info["dtype"] == "float64"
    loaded = dc.load(tmp_path / "whole")
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float64}
    assert torch.equal(loaded.predict(data.train.x), trained.eval().predict(data.train.x))  # type: ignore[operator]

    class Stop(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            if trainer.step == 2:
                raise KeyboardInterrupt

    settings = {"epochs": 4, "checkpoint_every": 1, "keep_weights": "last"}
    with pytest.raises(KeyboardInterrupt):
        dc.fit(new(), data, out=tmp_path / "broken", quiet=True, observers=[Stop()], **settings)  # type: ignore[arg-type]
    again = dc.resume(tmp_path / "broken", data, quiet=True).model
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), trained.parameters(), strict=True))


def test_weights_are_not_rounded_without_a_word(tmp_path: Path) -> None:
    plain, double = nn.Linear(2, 3), nn.Linear(2, 3).double()
    with pytest.raises(CheckpointError, match=r"bias is \(3,\) torch.float64, and \(3,\) torch.float32 in the model"):
        check_tensors({"bias": plain.bias}, {"bias": double.bias}, tmp_path)
    with pytest.raises(UsageError, match=r"weight is torch.float64 in the file and torch.float32 in the model"):
        give_weights(plain, double.state_dict(), "Linear")
    give_weights(double, plain.state_dict(), "Linear")  # nothing is lost
    assert torch.equal(double.weight, plain.weight.double())


def test_weights_of_another_version_are_refused_with_a_remedy(tmp_path: Path) -> None:
    one, both = {"bias": torch.zeros(3)}, {"bias": torch.zeros(3), "longest": torch.tensor(7)}
    remedy = "if another version of deepcanon wrote it, load it by that version, or train the model again"
    with pytest.raises(CheckpointError, match=f"lacks longest, which the model in run.json has; {remedy}"):
        check_tensors(both, one, tmp_path)
    with pytest.raises(CheckpointError, match=f"has 'longest', which the model in run.json does not have; {remedy}"):
        check_tensors(one, both, tmp_path)
    with pytest.raises(CheckpointError, match=rf"bias is \(4,\).*; {remedy}"):
        check_tensors(one, {"bias": torch.zeros(4)}, tmp_path)
