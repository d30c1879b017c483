from __future__ import annotations

import pytest
import torch

from deepcanon.core import SemiBatch
from deepcanon.data import load_data
from deepcanon.diagnosis.families.taught import pseudo_labels
from deepcanon.methods import PseudoLabel
from deepcanon.models import MLP
from tests.diagnosis.checks.planted import causes, report_of


@pytest.mark.slow
def test_pseudo_labels_that_wait_are_healthy_and_those_that_rule_from_the_start_drift() -> None:
    data = load_data("digits:labels=40")
    torch.manual_seed(0)
    assert causes(report_of("steady_pseudo_labels", PseudoLabel(MLP(64, 10)), data)) == []
    ruling = PseudoLabel(MLP(64, 10), weight=300.0, begin=0.0, until=1e-3)
    assert causes(report_of("steady_pseudo_labels", ruling, data)) == ["pseudo-label drift"]


def test_drift_is_a_divergence_of_classes() -> None:
    class One:
        def predict(self, x: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(x), dtype=torch.long)

    labels = torch.arange(10).repeat(10)
    found = pseudo_labels(One(), SemiBatch(torch.zeros(100, 1), labels, torch.zeros(100, 1)))
    shares = torch.tensor([100.5, *[0.5] * 9], dtype=torch.float64) / 105
    wanted = torch.tensor(0.1, dtype=torch.float64).log() - shares.log().mean()
    assert found["drift"] == pytest.approx(wanted.item())
