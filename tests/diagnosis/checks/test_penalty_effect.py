from __future__ import annotations

from typing import Any

from deepcanon.core import AnyBatch, Terms
from deepcanon.methods import Regularized
from tests.diagnosis.checks.planted import causes, report_of


def test_a_penalty_that_is_subtracted_is_seen() -> None:
    def loss(self: Any, batch: AnyBatch) -> Terms:
        fit, whole = self.model.loss(batch), Regularized.loss(self, batch)
        return {name: value if name in fit else -value for name, value in whole.items()}

    model = "regularized:model=mlp,l2=0.01"
    assert causes(report_of("penalty_effect", model, "digits", steps=5)) == []
    assert causes(report_of("penalty_effect", model, "digits", steps=5, methods={"loss": loss})) == [
        "penalty with the wrong sign"
    ]


def test_a_model_without_a_penalty_is_not_examined() -> None:
    assert "no penalty" in report_of("penalty_effect", "mlp", "digits").skipped["penalty_effect"]
