from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.diagnosis.checks.plain import CLASSES, X, causes, net, report


@pytest.mark.parametrize(("sort", "found"), [(True, ["sorted examples"]), (False, [])])
def test_a_loader_that_gives_one_class_after_the_other_is_seen(sort: bool, found: list[str]) -> None:
    order = CLASSES.argsort() if sort else torch.arange(600)
    loader = DataLoader(TensorDataset(X[order], CLASSES[order]), batch_size=32)
    assert causes("batch_order", net(), loader) == found


def test_a_loader_that_shuffles_is_not_examined() -> None:
    order = CLASSES.argsort()
    loader = DataLoader(TensorDataset(X[order], CLASSES[order]), batch_size=32, shuffle=True)
    assert "shuffled" in report("batch_order", net(), loader).skipped["batch_order"]
