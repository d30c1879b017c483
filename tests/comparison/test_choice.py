"""The choice of models: a written rule by kind, number of examples and budget, which says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deepcanon as dc
from deepcanon.comparison.baselines.registry import METHODS, baselines_for
from deepcanon.comparison.choice import choose
from deepcanon.core import Blueprint, UsageError
from deepcanon.data.suits import suits


def names(data: Any, budget: float | None = None) -> list[str]:
    return [each.cls.name() for each in choose(data, budget)[0]]


def test_number_and_budget_decide_and_the_reason_is_said() -> None:
    random = np.random.default_rng(0)
    few, many = (dc.data.of(random.normal(size=(count, 3)), random.normal(size=count)) for count in (60, 900))
    assert names(few) == ["linear_regression", "mlp"]
    assert names(many) == ["linear_regression", "mlp", "mlp"]
    _, why = choose(few)
    assert why[0].startswith("No models were named; these suit rows of a table with a number to predict, 60 training")
    assert "linear_regression: the linear model" in why[0]
    assert "is for 500 training examples or more" in why[1]
    plain = dc.data.of(random.normal(size=(900, 3)))
    assert names(plain) == ["vae", "realnvp", "ddpm"]
    assert names(plain, budget=10) == ["vae", "realnvp"]
    assert "takes a budget of 60 s or more" in choose(plain, 10)[1][1]


@pytest.mark.parametrize(
    "name",
    ["digits", "moons", "diabetes", "series", "karate", "planted-graphs", "planted-links", "adding", "dates", "text",
     *(pytest.param(name, marks=pytest.mark.slow) for name in ("ratings", "scenes", "stories", "moving-digits"))],
)  # fmt: skip
def test_for_every_kind_of_data_there_is_a_choice_that_suits(name: str) -> None:
    data = dc.load_data(name)
    chosen, why = choose(data, budget=30)
    assert chosen
    assert all(suits(each, data) for each in chosen)
    for each in chosen:
        each.build(data.sizes, data.name)
        assert each.label in why[0]


def test_baselines_are_those_that_do_what_the_candidates_do() -> None:
    def found(asked: Any, model: str, data: str) -> list[str]:
        others = baselines_for(asked, [dc.blueprint(model)], dc.load_data(data))
        return [each.cls.name() if isinstance(each, Blueprint) else each.name for each in others]

    assert found("default", "mlp", "moons") == ["gradient_boosting", "random_forest", "neighbors", "logistic"]
    assert found("default", "realnvp", "moons") == ["gaussian", "gaussian_mixture", "ppca"]
    assert found("default", "gaussian", "moons") == ["gaussian_mixture", "ppca"]
    assert found("default", "deepar", "series") == ["seasonal_naive", "exponential_smoothing"]
    assert found("default", "gcn", "karate") == ["label_propagation", "features_alone"]
    assert found("default", "lstm", "text") == found("default", "wavenet", "waveform") == ["markov_chain"]
    assert found("default", "markov_chain:order=2", "text") == []
    assert found("default", "cnn", "digits") == ["neighbors", "logistic"]
    assert found("default", "link_predictor", "planted-links") == ["common_neighbors", "preferential_attachment"]
    assert found("none", "mlp", "moons") == found((), "mlp", "moons") == []
    assert found(["ridge", "ppca"], "mlp", "diabetes") == ["ridge", "ppca"]
    with pytest.raises(UsageError, match=r"there is no baseline 'ridg'; did you mean ridge\?"):
        found(["ridg"], "mlp", "diabetes")
    with pytest.raises(
        UsageError, match="the baseline ridge is not for the points of moons; there are: gradient_boost"
    ):
        found(["ridge"], "mlp", "moons")


def test_every_baseline_has_a_name_and_a_label_of_its_own_and_does_what_models_do() -> None:
    assert len({method.name for method in METHODS}) == len({method.label for method in METHODS}) == len(METHODS)
    roles = ("predict", "forecast", "step_log_probs")
    assert all(sum(hasattr(method, role) for role in roles) == 1 for method in METHODS)
