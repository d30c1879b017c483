from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

import deepcanon as dc
from tests.diagnosis.checks.plain import CLASSES, CROSS_ENTROPY, X, net
from tests.diagnosis.checks.plain import causes as causes_of_plain
from tests.diagnosis.checks.planted import causes, report_of


def test_an_augmentation_that_keeps_the_class_is_fine() -> None:
    data = dc.load_data("digits")
    assert causes(report_of("class_after_augmentation", "augmentation:model=cnn", data, steps=10)) == []


def test_a_model_that_does_not_augment_is_not_examined() -> None:
    found = report_of("class_after_augmentation", "mlp", "digits")
    assert found.skipped == {"class_after_augmentation": "examples are not augmented"}


class Changing(nn.Module):
    """A network of examples that are changed in training mode, by noise or by moving their values anywhere."""

    def __init__(self, anywhere: bool) -> None:
        super().__init__()
        self.net = net()
        self.anywhere = anywhere

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.anywhere:
            x = x.gather(1, torch.rand(x.shape).argsort(1))
        elif self.training:
            x = x + 0.1 * torch.randn_like(x)
        out: Tensor = self.net(x)
        return out


@pytest.mark.slow
def test_a_plain_module_that_scrambles_examples_is_named_and_slight_noise_is_fine() -> None:
    name = "class_after_augmentation"
    assert causes_of_plain(name, Changing(True), (X, CLASSES), steps=150) == ["augmentation changes the class"]
    assert causes_of_plain(name, Changing(False), (X, CLASSES), steps=10) == []


@pytest.mark.parametrize("anywhere", [False, True])
def test_a_step_that_augments_is_judged_by_what_its_model_gets(anywhere: bool) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> None:
        x = batch.x.gather(1, torch.rand(batch.x.shape).argsort(1)) if anywhere else 1.01 * batch.x
        optimizer.zero_grad()
        CROSS_ENTROPY(model(x), batch.y).backward()
        optimizer.step()

    found = causes_of_plain("class_after_augmentation", net(), loss=None, step=step, steps=150 if anywhere else 10)
    assert found == (["augmentation changes the class"] if anywhere else [])


def test_a_step_that_changes_some_batches_only_is_seen() -> None:
    def step(model: nn.Module, optimizer: Any, batch: Any) -> None:
        x = batch.x if random.random() < 0.3 else -batch.x
        optimizer.zero_grad()
        functional.cross_entropy(model(x), batch.y).backward()
        optimizer.step()

    assert causes_of_plain("class_after_augmentation", net(), step=step, loss=None) == [
        "augmentation changes the class"
    ]
