"""A disturbed order is found by sequence likelihoods, as well as by the process itself, and never by values alone."""

from typing import Any

import pytest
import torch
from scipy import stats

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.studies import anomalies as study
from deepcanon.studies.anomalies import ALONE, GIVEN, TRUTH, anomalies, sentences


@pytest.mark.slow
def test_a_trained_autoregression_finds_what_the_process_itself_finds() -> None:
    before = torch.get_rng_state()
    finding = anomalies(dc.find("autoregression"), dc.find("deepar"), series=200, steps=200, seeds=2)
    assert torch.equal(torch.get_rng_state(), before)
    areas: dict[str, Any] = finding.numbers["areas"]
    assert min(areas[TRUTH]) > 0.75
    assert max(abs(area - 0.5) for area in areas[ALONE]) < 0.13  # five standard errors of 100 against 100 series
    behind = [best - own for best, own in zip(areas[TRUTH], areas["autoregression"], strict=True)]
    assert max(behind) < 0.02
    assert all(gap > 0.2 for gap in finding.numbers["inside"][TRUTH])
    assert all(abs(gap) < 0.05 for gap in finding.numbers["inside"][ALONE])


def test_the_closed_form_is_the_density_of_the_process() -> None:
    """The joint density of the predicted steps given the first ones, from the covariance of a stationary AR(1)."""
    batch = study._drawn(3, GIVEN + 6, torch.Generator().manual_seed(0))
    z = batch.x[..., 0].double().numpy()
    lags = abs(torch.arange(z.shape[1])[:, None] - torch.arange(z.shape[1])).double()
    covariance = (study.MEMORY**lags / (1 - study.MEMORY**2)).numpy()
    joint = stats.multivariate_normal(cov=covariance).logpdf(z)
    given = stats.multivariate_normal(cov=covariance[:GIVEN, :GIVEN]).logpdf(z[:, :GIVEN])
    assert (-study._closed_form(batch).sum(1)).tolist() == pytest.approx((joint - given).tolist(), rel=1e-4)


def test_only_the_order_of_a_window_is_disturbed() -> None:
    random = torch.Generator().manual_seed(0)
    plain = study._drawn(10, 60, random)
    values = plain.x.clone()
    strange, steps = study._disturbed(plain, 9, random)
    assert strange.tolist() == [False, True] * 5
    assert steps.sum(1).tolist() == [0, 9] * 5
    assert not bool(steps[:, :GIVEN].any())
    assert torch.equal(plain.x[~steps], values[~steps])
    assert torch.equal(plain.x.sort(1).values, values.sort(1).values)
    with pytest.raises(UsageError, match="length must be at least 36"):
        anomalies(dc.find("autoregression"), dc.find("deepar"), length=30)


def test_the_verdict_follows_the_numbers() -> None:
    def planted(deepar: list[float]) -> str:
        values = {TRUTH: [0.9, 0.91, 0.9], ALONE: [0.5, 0.5, 0.51], "deepar": deepar}
        return sentences({"areas": values, "inside": values})[1]

    assert planted([0.8, 0.81, 0.8]) == "deepar is behind the closed form by 0.100 ± 0.000."
    assert planted([0.9, 0.89, 0.93]).startswith("deepar cannot be told from the closed form")
