"""Initializations side by side: equal units stay equal, signals change as the formula says, good ones learn."""

from statistics import fmean

import pytest

from deepcanon.models.feedforward.mlp import MLP
from deepcanon.studies.initialization import GROUPS, initialization, sentences


@pytest.mark.slow
def test_the_study_finds_what_the_formulas_say() -> None:
    width = 48
    found = initialization(MLP, depth=4, width=width, epochs=3, seeds=2)
    results = found.numbers["initializations"]
    assert list(results) == [name for group in GROUPS.values() for name in group]
    accuracies = {name: fmean(result["accuracies"]) for name, result in results.items()}
    for name in ("zero", "constant:value=0.05"):
        assert results[name]["variety"] == pytest.approx([0, 0], abs=1e-12)  # nothing ever tells the units apart
        assert accuracies[name] < 0.2
    assert min(results["kaiming_normal"]["variety"]) > 0.5
    assert accuracies["kaiming_normal"] > 0.6
    assert accuracies["kaiming_normal"] > accuracies["uniform:bound=0.1"] + 0.2
    for name, variance in (("normal:std=1", 1.0), ("uniform:bound=0.1", 0.01 / 3), ("kaiming_normal", 2 / width)):
        forward = results[name]["forward"]
        assert (forward[2] / forward[0]) ** 0.5 == pytest.approx(width * variance / 2, rel=0.35)
        backward = results[name]["backward"]
        assert (backward[0] / backward[2]) ** 0.5 == pytest.approx(width * variance / 2, rel=0.35)
    assert len(found.says) == 1 + len(GROUPS)


def test_the_headline_follows_the_numbers() -> None:
    names = [name for group in GROUPS.values() for name in group]

    def planted(**best: list[float]) -> str:
        values = {name: best.get(name, [0.5, 0.51, 0.5]) for name in names}
        return sentences(
            {"chance": 0.1, "initializations": {n: {"accuracies": a, "rate": 0.1} for n, a in values.items()}}
        )[0]

    assert "fan_in trains best, to 90.3% ± 1.4%" in planted(fan_in=[0.9, 0.91, 0.9])
    words = planted(fan_in=[0.9, 0.91, 0.9], kaiming_normal=[0.91, 0.9, 0.91], zero=[0.1, 0.1, 0.1])
    assert "kaiming_normal and fan_in cannot be told apart" in words
    assert words.endswith("zero does not train at any.")
