from __future__ import annotations

from typing import Any

import pytest
from torch import Generator, Tensor

from tests.diagnosis.checks.planted import causes, parent, report_of


@pytest.mark.slow
def test_a_sampler_that_is_not_that_of_the_density_is_named() -> None:
    def _sample(self: Any, n: int, generator: Generator | None) -> Tensor:
        drawn: Tensor = 20 + parent(self)._sample(self, n, generator)
        return drawn

    assert causes(report_of("own_likelihood", "realnvp:hidden=16", "moons")) == []
    report = report_of("own_likelihood", "realnvp:hidden=16", "moons", methods={"_sample": _sample})
    assert causes(report) == ["sampler and likelihood disagree"]
