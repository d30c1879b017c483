from __future__ import annotations

import deepcanon as dc
from tests.diagnosis.checks.planted import causes, report_of


def test_an_augmentation_that_keeps_the_class_is_fine() -> None:
    data = dc.load_data("digits")
    assert causes(report_of("class_after_augmentation", "augmentation:model=cnn", data, steps=10)) == []


def test_a_model_that_does_not_augment_is_not_examined() -> None:
    found = report_of("class_after_augmentation", "mlp", "digits")
    assert found.skipped == {"class_after_augmentation": "examples are not augmented"}
