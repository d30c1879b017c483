from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

import deepcanon as dc
from tests.diagnosis.checks.plain import BITS, CLASSES, CROSS_ENTROPY, X, causes, net


def test_labels_beyond_the_outputs_are_seen() -> None:
    assert causes("label_values", net(), (X, CLASSES)) == []
    assert causes("label_values", net(), (X, CLASSES + 1)) == ["labels out of range"]


def test_a_class_without_examples_is_seen_and_ignored_positions_are_let_pass() -> None:
    others = CLASSES != 1
    assert causes("label_values", net(), (X[others], CLASSES[others])) == ["missing class"]
    assert causes("label_values", net(), (X, torch.zeros_like(CLASSES))) == ["missing class"]
    ignored = CLASSES.clone()
    ignored[:5] = -100
    assert causes("label_values", net(), (X, ignored)) == []


def test_a_class_that_a_held_out_split_lacks_is_seen_where_chance_would_have_given_it() -> None:
    train, rest = slice(0, 400), slice(400, 600)
    lacking = CLASSES[rest] != 2
    data = dc.from_tensors(X[train], CLASSES[train], valid=(X[rest][lacking], CLASSES[rest][lacking]))
    assert causes("label_values", net(), data) == ["missing class"]
    few = dc.from_tensors(X[train], CLASSES[train], valid=(X[rest][lacking][:20], CLASSES[rest][lacking][:20]))
    assert causes("label_values", net(), few) == []


def test_targets_of_a_binary_cross_entropy_lie_between_0_and_1() -> None:
    loss = nn.BCEWithLogitsLoss()
    assert causes("label_values", net(1), (X, 0.9 * BITS), loss=loss) == []
    assert causes("label_values", net(1), (X, 2 * BITS - 1), loss=loss) == ["labels out of range"]


def test_negative_labels_that_a_step_leaves_out_are_fine() -> None:
    few = torch.where(torch.arange(len(CLASSES)) % 5 == 0, CLASSES, -1)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any, *, known: bool) -> None:
        x, y = batch
        optimizer.zero_grad()
        some = y >= 0 if known else y > -2
        CROSS_ENTROPY(model(x[some]), y[some]).backward()
        optimizer.step()

    assert causes("label_values", net(), (X, few), loss=None, step=partial(step, known=True)) == []
    assert causes("label_values", net(), (X, few), loss=None, step=partial(step, known=False)) == [
        "labels out of range"
    ]
