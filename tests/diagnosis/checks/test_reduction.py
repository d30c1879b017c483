from __future__ import annotations

from torch import nn

from tests.diagnosis.checks.plain import TARGETS, X, causes, net, sgd


def test_a_sum_over_the_examples_is_seen_and_one_over_the_features_is_not() -> None:
    model = net()
    summed_classes = nn.CrossEntropyLoss(reduction="sum")
    assert causes("reduction", model, loss=summed_classes, optimizer=sgd(model)) == ["wrong reduction"]
    assert causes("reduction", model, loss=summed_classes, optimizer=sgd(model, 0.004)) == []  # chosen for a sum
    assert causes("reduction", net()) == []
    summed = lambda output, y: (output - y).square().sum(1).mean()  # noqa: E731
    assert causes("reduction", net(1), (X, TARGETS), loss=summed) == []
