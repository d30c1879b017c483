from __future__ import annotations

import torch
from torch import Tensor, nn

import deepcanon as dc
from tests.diagnosis.checks.plain import CLASSES, X, net
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


def test_a_plain_module_that_scrambles_examples_is_named_and_slight_noise_is_fine() -> None:
    name = "class_after_augmentation"
    assert causes_of_plain(name, Changing(True), (X, CLASSES), steps=150) == ["augmentation changes the class"]
    assert causes_of_plain(name, Changing(False), (X, CLASSES), steps=10) == []
