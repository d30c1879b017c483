from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from tests.diagnosis.checks.plain import causes, net


class Unseeded(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        own = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "little"))
        out: Tensor = super().forward(x + 0.1 * torch.randn(x.shape, generator=own))  # type: ignore[no-untyped-call]
        return out


def test_a_generator_that_no_seed_decides_is_seen_and_dropout_is_fine() -> None:
    assert causes("seeds", Unseeded(*net())) == ["seed not honored"]
    assert causes("seeds", nn.Sequential(nn.Dropout(0.5), net())) == []
