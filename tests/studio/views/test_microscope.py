"""The microscope of the studio: any example, and an edit whose effects are those of a model with that number."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.studio.views import microscope


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    quick: dict[str, Any] = {"steps": 3, "quiet": True, "evaluate": False, "pictures": False}
    return dc.Run.train("mlp:hidden=4", "moons", out=tmp_path_factory.mktemp("runs") / "mlp", **quick).dir


def test_any_example_of_a_run_goes_under_the_microscope(run: Path) -> None:
    opened: Any = dc.Run(run)
    graph = microscope.magnified(run, "valid", [17])
    batch = opened.data.valid.select(torch.tensor([17]))
    assert graph.loss == pytest.approx(dc.microscope(opened.model, batch).loss, abs=1e-12)
    assert graph.title == "mlp on moons, valid example 17"
    assert f"loss <b>{graph.loss:.6g}</b>" in microscope.page(run, "valid", [17])
    subject = microscope.subject(run)
    weight = subject["parameters"][0]
    assert (weight["shape"], weight["size"]) == ([4, 2], 8)
    values = microscope.numbers(run, weight["name"])["values"]
    assert values == opened.model.state_dict()[weight["name"]].flatten().double().tolist()


def test_an_edit_moves_the_loss_as_in_a_model_with_that_number(run: Path) -> None:
    opened: Any = dc.Run(run)
    edit = {"parameter": "net.2.bias", "index": 1, "value": 0.75}
    found = microscope.edited(run, "test", [3], edit)
    batch = opened.data.test.select(torch.tensor([3]))
    other = copy.deepcopy(opened.model)
    with torch.no_grad():
        other.get_parameter("net.2.bias")[1] = 0.75
    loss = dc.microscope(opened.model, batch).loss
    assert found["loss_before"] == pytest.approx(loss, abs=1e-12)
    assert found["loss_after"] == pytest.approx(dc.microscope(other, batch).loss, abs=1e-12)
    assert found["before"] == opened.model.state_dict()["net.2.bias"][1].item()
    slope = dc.microscope(opened.model, batch).find("net.2.bias").delta[1]
    assert found["slope"] == pytest.approx(slope)
    assert found["foreseen"] == pytest.approx(loss + slope * (0.75 - found["before"]))
    moved = {(each["from"], each["to"]): each for each in found["moved"]}
    assert moved["net.2.bias", "linear"]["value"] > 0
    assert moved["net.0.weight", "linear"]["value"] == 0  # a value before the edit stays; its delta moves
    assert moved["net.0.weight", "linear"]["delta"] > 0
    assert '"edited":true' in microscope.page(run, "test", [3], edit=edit)
    again = dc.Run(run).model.state_dict()
    assert all(torch.equal(weight, again[name]) for name, weight in opened.model.state_dict().items())


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"parameter": "no", "index": 0, "value": 0.0}, "no parameter"),
        ({"parameter": "net.2.bias", "index": 2, "value": 0.0}, "numbers 0 to 1"),
        ({"parameter": "net.2.bias", "index": 0, "value": float("inf")}, "finite"),
        ({"parameter": "net.2.bias", "index": "x", "value": 0.0}, "names a parameter"),
        ({"parameter": "net.2.bias"}, "names a parameter"),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused(run: Path, edit: dict[str, Any], words: str) -> None:
    with pytest.raises(dc.UsageError, match=words):
        microscope.magnified(run, "test", [0], edit=edit)


def test_too_many_examples_are_refused(run: Path) -> None:
    with pytest.raises(dc.UsageError, match="1 to 16"):
        microscope.page(run, "test", list(range(17)))
