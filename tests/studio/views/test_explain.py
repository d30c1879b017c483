"""What a model sees, in the studio: the numbers of the library's own insights on the run that was opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.insights.activation_maps import activation_maps
from deepcanon.insights.grad_cam import grad_cam, randomized
from deepcanon.insights.receptive_field import receptive_field
from deepcanon.runs import text
from deepcanon.studio.views import explain
from deepcanon.studio.views.looking import look_into

QUICK: dict[str, Any] = {"steps": 3, "quiet": True, "evaluate": False, "pictures": False}


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dc.Run.train("cnn:hidden=4/6", "digits", out=tmp_path_factory.mktemp("runs") / "cnn", **QUICK).dir


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = "gpt:layers=2,heads=2,embedding=8"
    return dc.Run.train(words, "text", out=tmp_path_factory.mktemp("runs") / "gpt", batch_size=4, **QUICK).dir


def test_panels_come_from_what_a_model_can_do(cnn: Path, gpt: Path, tmp_path: Path) -> None:
    found = explain.panels(cnn)
    assert found["panels"] == ["activations", "grad_cam", "receptive_field"]
    assert found["splits"] == {"test": 360, "valid": 180, "train": 1257}
    assert "stages.1.0" in found["layers"]
    assert explain.panels(gpt)["panels"] == ["attention", "next_token"]
    plain = dc.Run.train("mlp:hidden=4", "moons", out=tmp_path / "mlp", **QUICK)
    assert explain.panels(plain.dir)["panels"] == []


@pytest.mark.slow
def test_maps_are_those_of_the_insights_on_this_example(cnn: Path) -> None:
    run: Any = dc.Run(cnn)
    few = run.data.test.select(torch.tensor([7, *[n for n in range(64) if n != 7]]))
    assert explain.activations(cnn, "test", 7)["numbers"] == activation_maps(run.model, few).numbers
    control = explain.activations(cnn, "test", 7, control=True)["numbers"]
    assert control == activation_maps(randomized(run.model), few).numbers
    one = run.data.test.select(torch.tensor([7]))
    assert explain.class_maps(cnn, "test", 7)["numbers"] == grad_cam(run.model, one, shown=1).numbers
    third = explain.class_maps(cnn, "test", 7, target=3, layer="stages.0.0")["numbers"]
    assert third == grad_cam(run.model, one, shown=1, target=3, layer="stages.0.0").numbers
    assert third["explained_class"] == [3]
    field = explain.fields(cnn, "test", 7)
    assert field["numbers"] == receptive_field(run.model, few).numbers
    assert field["numbers"]["layers"][0]["size"] == [5, 5]


def test_an_example_is_shown_as_it_is(cnn: Path) -> None:
    run: Any = dc.Run(cnn)
    look = look_into(cnn)
    shown = look.example("valid", 5)
    x = run.data.valid.x[5].flatten()
    low, high = float(run.data.test.x.min()), float(run.data.test.x.max())
    assert shown["values"] == pytest.approx(((x - low) / (high - low)).tolist(), abs=1e-4)
    assert shown["true"] == run.data.labels[int(run.data.valid.y[5])]
    assert (shown["height"], shown["width"], shown["channels"]) == (8, 8, 1)
    with pytest.raises(dc.UsageError, match="numbered from 0"):
        look.example("test", 360)
    with pytest.raises(dc.UsageError, match="splits"):
        look.example("other", 0)


def test_attention_is_that_of_the_model_and_each_row_sums_to_one(gpt: Path) -> None:
    run: Any = dc.Run(gpt)
    found = explain.attention(gpt, "test", 2)
    x = run.data.test.x[2:3, : len(found["names"])]
    expected = run.model.attention_maps(x)[:, 0].double()
    maps = torch.tensor(found["maps"], dtype=torch.float64)
    assert torch.equal(maps, expected)
    assert torch.allclose(maps.sum(-1), torch.ones_like(maps[..., 0]))
    assert found["names"] == [run.model.vocabulary[code] for code in x[0].tolist()]
    assert explain.attention(gpt, "test", 2, control=True)["maps"] != found["maps"]


def test_the_next_token_has_the_probability_of_the_model_at_every_temperature(gpt: Path) -> None:
    run: Any = dc.Run(gpt)
    count = len(run.info["data"]["vocabulary"])
    found = explain.next_token(gpt, "def ", top=count)
    prompt = text.encode("def ", run.info["data"])
    each = torch.cat([prompt.expand(count, -1), torch.arange(count).unsqueeze(1)], 1)
    oracle = run.model.step_log_probs(each)[:, -1].exp()  # by another way: the likelihood of each text
    given = {entry["token"]: entry for entry in found["tokens"]}
    got = torch.tensor([given[token]["probability"] for token in run.info["data"]["vocabulary"]])
    assert torch.allclose(got, oracle, atol=1e-6)
    assert sum(entry["probability"] for entry in found["tokens"]) == pytest.approx(1, abs=1e-5)
    assert found["read"] == list("def ")
    cold = explain.next_token(gpt, "def ", temperature=0.5, top=count)
    squares = oracle.double().square()
    heated = {entry["token"]: entry["heated"] for entry in cold["tokens"]}
    got = torch.tensor([heated[token] for token in run.info["data"]["vocabulary"]], dtype=torch.float64)
    assert torch.allclose(got, squares / squares.sum(), atol=1e-6)


def test_what_makes_no_sense_is_refused_with_a_sentence(cnn: Path, gpt: Path) -> None:
    with pytest.raises(dc.UsageError, match="no attention"):
        explain.attention(cnn, "test", 0)
    with pytest.raises(dc.UsageError, match="does not continue"):
        explain.next_token(cnn, "a")
    with pytest.raises(dc.UsageError, match="temperature"):
        explain.next_token(gpt, "a", temperature=0.0)
    with pytest.raises(dc.UsageError, match="at most 400"):
        explain.next_token(gpt, "a" * 401)
