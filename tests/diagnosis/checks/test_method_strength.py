from __future__ import annotations

import pytest

from tests.diagnosis.checks.planted import causes, report_of


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("regularized:model=mlp,l2=1000", ["weight decay too strong"]),
        ("regularized:model=mlp,l2=0.001", []),
        ("noise_injection:model=mlp,inputs=100", ["noise too strong"]),
        ("noise_injection:model=mlp,inputs=0.1", []),
    ],
)
def test_a_method_that_leaves_nothing_to_learn_is_seen(model: str, found: list[str]) -> None:
    assert causes(report_of("method_strength", model, "digits", steps=80)) == found


def test_a_model_alone_is_not_examined() -> None:
    assert "not a method" in report_of("method_strength", "mlp", "digits", steps=5).skipped["method_strength"]
