from __future__ import annotations

import pytest
from torch import Tensor, nn

from tests.diagnosis.checks.plain import causes, net


class Averaged(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(1e-7 * x)  # type: ignore[no-untyped-call]
        return out.round(decimals=1) + 0 * out


@pytest.mark.slow
def test_a_model_that_cannot_learn_anything_by_heart_is_seen() -> None:
    assert causes("small_batch_fit", Averaged(*net()), steps=60) == ["cannot fit a small batch"]
    assert causes("small_batch_fit", net(), steps=60) == []
