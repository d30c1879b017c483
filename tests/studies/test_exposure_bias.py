"""Errors after own tokens are divergences from a known source, and free running does not learn it."""

from typing import Any

import pytest
import torch
from scipy import stats

import deepcanon as dc
from deepcanon.studies import exposure_bias as study
from deepcanon.studies.exposure_bias import errors, exposure_bias, sentences


def test_the_error_is_the_divergence_from_the_source() -> None:
    source = study._source(3, torch.Generator().manual_seed(0))
    tokens = torch.tensor([[0, 2, 1], [1, 1, 0]])
    logits = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = errors(source, tokens, logits)
    for row in range(2):
        for place in range(2):
            true = source[tokens[row, place], tokens[row, place + 1]]
            model = logits[row, place + 1].softmax(0)
            assert float(found[row, place]) == pytest.approx(float(stats.entropy(true, model)), rel=1e-9)
    perfect = source.log()[tokens[:, :-1], tokens[:, 1:]]
    assert float(errors(source, tokens, torch.cat([perfect[:, :1], perfect], 1)).abs().max()) < 1e-12


@pytest.mark.slow
def test_teacher_forcing_learns_the_source_and_free_running_does_not() -> None:
    before = torch.get_rng_state()
    finding = exposure_bias(dc.find("lstm"), vocab=4, length=15, units=16, steps=120, seeds=2)
    assert torch.equal(torch.get_rng_state(), before)
    ways: dict[str, Any] = finding.numbers["ways"]
    forced, free = (sum(map(sum, ways[name]["true"])) / 28 for name in ("teacher forcing", "free running"))
    assert forced < 0.5 * finding.numbers["guess"]
    assert free > 2 * forced


def test_the_verdict_follows_the_numbers() -> None:
    def planted(own: list[float]) -> str:
        ways = {name: {"true": [[0.1], [0.1]], "own": [[each] for each in own]} for name in study.WAYS}
        return sentences({"ways": ways, "guess": 1.0})[1]

    assert planted([0.4, 0.4]).endswith("it is worse after its own, by 0.3000 ± 0.0000.")
    assert planted([0.05, 0.05]).endswith("it is better after its own, by 0.0500 ± 0.0000.")
    assert planted([0.2, 0.05]).endswith("cannot be told from none.")
