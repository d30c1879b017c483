from __future__ import annotations

from typing import Any

from torch import Generator, Tensor

from tests.diagnosis.checks.planted import causes, report_of


def test_a_sampler_that_is_not_that_of_the_density_is_named() -> None:
    def _sample(self: Any, n: int, generator: Generator | None) -> Tensor:
        return 20 + type(self).__mro__[1]._sample(self, n, generator)  # type: ignore[no-any-return]

    assert causes(report_of("own_likelihood", "realnvp:hidden=16", "moons")) == []
    report = report_of("own_likelihood", "realnvp:hidden=16", "moons", methods={"_sample": _sample})
    assert causes(report) == ["sampler and likelihood disagree"]
