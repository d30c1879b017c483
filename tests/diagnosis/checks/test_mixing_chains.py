from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from tests.diagnosis.checks.planted import causes, report_of

RBM, DATA = "rbm:units=16,chains=64", "digits:binary"


def test_healthy_chains_are_left_alone() -> None:
    report = report_of("mixing_chains", RBM, DATA)
    assert causes(report) == []
    assert report.passed["mixing_chains"]["moved"] > 0.2


def test_chains_from_the_data_are_healthy_too() -> None:
    assert causes(report_of("mixing_chains", f"{RBM},persistent=false", DATA)) == []


def test_chains_that_stand_still_are_named() -> None:
    def _run_chains(self: Any, x: Tensor) -> Tensor:
        states: Tensor = (self._down((self.chains > 0.5).to(x.dtype)) > 0).to(x.dtype)
        return states

    assert causes(report_of("mixing_chains", RBM, DATA, methods={"_run_chains": _run_chains})) == ["chain does not mix"]


@pytest.mark.slow
def test_too_high_a_rate_is_named_and_a_low_one_is_not() -> None:
    assert causes(report_of("mixing_chains", RBM, DATA, lr=300.0, schedule="constant")) == ["chain rate too high"]
    assert causes(report_of("mixing_chains", RBM, DATA, lr=0.01)) == []
