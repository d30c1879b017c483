from __future__ import annotations

import deepcanon as dc
from tests.diagnosis.checks.plain import CLASSES, X, causes, net


def test_a_split_that_is_scaled_in_another_way_is_seen() -> None:
    alike = dc.from_tensors(X[:400], CLASSES[:400], valid=(1.2 * X[400:], CLASSES[400:]))
    apart = dc.from_tensors(X[:400], CLASSES[:400], valid=(10 * X[400:], CLASSES[400:]))
    assert causes("split_shift", net(), alike) == []
    assert causes("split_shift", net(), apart) == ["shifted splits"]
