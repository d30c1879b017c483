from __future__ import annotations

from typing import Any

import pytest

from deepcanon.core import Descend
from deepcanon.diagnosis.families.kept_weights import declared_base
from deepcanon.models import MLP
from tests.diagnosis.checks.planted import causes, report_of


@pytest.mark.parametrize("method", ["lora:model=mlp", "adapters:model=mlp", "transfer:model=mlp"])
def test_the_base_keeps_its_bits_unless_it_is_trained(method: str) -> None:
    def turns(self: Any) -> list[Any]:
        return [Descend(self.loss, self.requires_grad_(True).parameters())]

    assert causes(report_of("base_kept", method, "digits")) == []
    assert causes(report_of("base_kept", method, "digits", methods={"turns": turns})) == ["base drift"]


def test_a_model_without_a_base_is_not_examined() -> None:
    assert declared_base(MLP(4, 2)) == {}
    assert "stay as it is" in report_of("base_kept", "mlp", "digits").skipped["base_kept"]


def test_weights_that_a_formula_sets_are_no_base() -> None:
    assert causes(report_of("base_kept", "linear_regression", "diabetes", steps=5)) == []
