"""A blueprint is a model that is asked for and not built: by name, class, JSON or instance, alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from deepcanon.blueprints import blueprint
from deepcanon.catalogue import find
from deepcanon.core import Blueprint, UsageError, describe
from deepcanon.core.toy import Toy
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.noise_injection import NoiseInjection
from deepcanon.models.feedforward.mlp import MLP

SIZES = {"features": 3, "classes": 2}


@pytest.mark.parametrize(
    "asked",
    [
        blueprint("mlp:hidden=5/4"),
        blueprint("mlp", {"hidden": (5, 4)}),
        blueprint(MLP, {"hidden": (5, 4)}),
        blueprint({"model": "mlp", "arguments": {"hidden": (5, 4)}}),
        Blueprint(MLP, {"hidden": (5, 4)}),
    ],
)
def test_all_ways_to_ask_build_one_model(asked: Blueprint) -> None:
    torch.manual_seed(0)
    plain = MLP(features=3, classes=2, hidden=(5, 4))
    torch.manual_seed(0)
    built = asked.build(SIZES, "data")
    assert describe(built) == describe(plain)
    assert all(torch.equal(one, other) for one, other in zip(built.parameters(), plain.parameters(), strict=True))


def test_a_description_builds_the_model_again_with_the_models_inside() -> None:
    method: Any = NoiseInjection(MLP(features=3, classes=2, hidden=(4,)))
    asked = Blueprint.from_json(describe(method), find)
    assert [part.cls for part in asked.everything()] == [NoiseInjection, MLP]
    assert describe(asked.build()) == describe(method)
    assert asked.find("mlp") is MLP
    with pytest.raises(UsageError, match=r"the run holds a gan where noise_injection:.* was expected"):
        asked.find("gan")


def test_a_trained_model_inside_is_copied_and_must_suit_the_data() -> None:
    inner, _ = ToyClassifier.example()
    asked = blueprint("noise_injection", {"model": inner})
    built: Any = asked.build({"features": 2, "classes": 2}, "data")
    assert built.model is not inner
    assert torch.equal(built.model.first.weight, inner.first.weight)
    with pytest.raises(UsageError, match="features is 3 in data, but 2 in the ToyClassifier that was given"):
        asked.build(SIZES, "data")


def test_options_of_the_command_line_ask_for_the_same_model() -> None:
    asked = blueprint("regularized", {"model": {"model": "mlp", "arguments": {"hidden": (8, 8)}}})
    assert asked.to_options() == ["--model", "mlp", "--model.hidden", "8,8"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Blueprint(Toy, {"width": 1}), "Toy takes no argument width; it takes features"),
        (lambda: Blueprint(Toy, [1]), "the arguments of Toy are a mapping"),  # type: ignore[arg-type]
        (lambda: blueprint(3), "model is the name of a model or its class, got 3"),
        (lambda: Blueprint(Toy).build({"vocab": 3}, "text"), "Toy needs features, which text does not have"),
        (lambda: Blueprint(find("lora")).build(SIZES), "lora needs the argument model"),
        (lambda: blueprint("vae:latent"), "options are written name:option=value"),
        (lambda: blueprint("vae:latnet=3"), "vae takes no latnet; did you mean latent?"),
    ],
)
def test_a_wrong_question_is_answered_by_one_sentence(wrong: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        wrong()
