"""Initializations side by side: equal units stay equal, signals change as the formula says, good ones learn."""

import pytest

from deepcanon.models.feedforward.mlp import MLP
from deepcanon.studies.initialization import GROUPS, initialization


def test_the_study_finds_what_the_formulas_say() -> None:
    width = 48
    found = initialization(MLP, depth=4, width=width, epochs=3, lr=0.1)
    results = found.numbers["initializations"]
    assert list(results) == [name for group in GROUPS.values() for name in group]
    for name in ("zero", "constant:value=0.05"):
        assert results[name]["variety"] == pytest.approx(0, abs=1e-12)  # nothing ever tells the units apart
        assert results[name]["accuracy"] < 0.2
    for name in GROUPS["large"]:
        assert results[name]["diverged"]
    assert results["kaiming_normal"]["variety"] > 0.5
    assert results["kaiming_normal"]["accuracy"] > 0.6
    assert results["kaiming_normal"]["accuracy"] > results["uniform:bound=0.1"]["accuracy"] + 0.2
    for name, variance in (("normal:std=1", 1.0), ("uniform:bound=0.1", 0.01 / 3), ("kaiming_normal", 2 / width)):
        forward = results[name]["forward"]
        assert (forward[2] / forward[0]) ** 0.5 == pytest.approx(width * variance / 2, rel=0.35)
        backward = results[name]["backward"]
        assert (backward[0] / backward[2]) ** 0.5 == pytest.approx(width * variance / 2, rel=0.35)
    assert len(found.says) == len(GROUPS)
    assert found.says[1] == "Large: signs:value=1 diverges, normal:std=1 diverges, uniform:bound=1 diverges."
