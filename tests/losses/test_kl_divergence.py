"""The divergence is that of scipy and torch; with one-hot targets it is the cross-entropy."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import entropy

from deepcanon.losses import kl_divergence


def test_it_is_scipys_divergence_and_torchs() -> None:
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64)
    targets = torch.randn(5, 4, dtype=torch.float64).softmax(-1)
    found = kl_divergence(logits, targets).item()
    assert found == pytest.approx(entropy(targets.numpy(), logits.softmax(-1).numpy(), axis=1).mean(), rel=1e-12)
    torchs = torch.nn.functional.kl_div(logits.log_softmax(-1), targets, reduction="batchmean")
    assert found == pytest.approx(torchs.item(), rel=1e-12)
    assert kl_divergence(targets.log(), targets).item() == pytest.approx(0, abs=1e-15)


def test_with_certain_targets_it_is_the_cross_entropy() -> None:
    torch.manual_seed(0)
    logits, y = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 3, 1, 1, 2])
    certain = torch.nn.functional.one_hot(y, 4).double()
    torch.testing.assert_close(kl_divergence(logits, certain), torch.nn.functional.cross_entropy(logits, y))
