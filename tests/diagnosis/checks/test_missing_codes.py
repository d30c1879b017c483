from __future__ import annotations

from tests.diagnosis.checks.plain import CLASSES, X, causes, net


def test_a_code_for_missing_values_is_seen_and_an_outlier_is_not() -> None:
    x = X.clone()
    x[5, 3] = 1e5
    assert causes("missing_codes", net(), (x, CLASSES)) == []
    x[::15, 3] = -999.0
    assert causes("missing_codes", net(), (X, CLASSES)) == []
    x[5, 3] = 0.0
    assert causes("missing_codes", net(), (x, CLASSES)) == ["out-of-range values"]
