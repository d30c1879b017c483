from __future__ import annotations

from tests.diagnosis.checks.plain import CLASSES, X, causes, net, sgd


def test_features_far_apart_in_scale_are_named_if_standardizing_helps() -> None:
    x = X.clone()
    x[:, 1] *= 1e4
    model = net()
    assert causes("input_scale", model, (x, CLASSES), optimizer=sgd(model), steps=150) == ["unscaled inputs"]


def test_features_of_several_units_are_fine_where_the_model_learns_all_the_same() -> None:
    assert causes("input_scale", net(), (15 * X, CLASSES), steps=150) == []
