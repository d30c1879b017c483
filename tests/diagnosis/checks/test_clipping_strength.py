from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from torch import nn
from torch.optim import Optimizer

from tests.diagnosis.checks.plain import CROSS_ENTROPY, causes, net, sgd


def clipped(model: nn.Module, optimizer: Optimizer, batch: Any, *, at: float) -> None:
    optimizer.zero_grad()
    CROSS_ENTROPY(model(batch.x), batch.y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), at)
    optimizer.step()


@pytest.mark.parametrize(("at", "found"), [(1.0, []), (1e-9, ["clipping too strong"])])
def test_clipping_that_leaves_nothing_is_seen(at: float, found: list[str]) -> None:
    model = net()
    assert causes("clipping_strength", model, optimizer=sgd(model), step=partial(clipped, at=at), steps=150) == found
