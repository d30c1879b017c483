"""Heads with a scale have the densities of scipy, in the units of the data."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from deepcanon.core import UsageError, draw
from deepcanon.distributions import ScaledByValues, ScaledHead, scaled_head
from deepcanon.distributions.scaled import Link

SCALE = torch.tensor([[3.0], [500.0]], dtype=torch.float64)


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def outputs(numbers: int) -> torch.Tensor:
    return torch.randn(2, numbers, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def test_gaussian() -> None:
    mean, raw = outputs(2).T.unsqueeze(2).numpy()
    y = torch.tensor([[1.0], [-800.0]], dtype=torch.float64)
    expected = stats.norm.logpdf(y.numpy(), SCALE.numpy() * mean, SCALE.numpy() * (1e-3 + softplus(raw))).squeeze(1)
    found = scaled_head("gaussian").distribution(outputs(2), SCALE).log_prob(y)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_student_t() -> None:
    mean, raw, freedom = outputs(3).T.unsqueeze(2).numpy()
    y = torch.tensor([[1.0], [-800.0]], dtype=torch.float64)
    spread = SCALE.numpy() * (1e-3 + softplus(raw))
    expected = stats.t.logpdf(y.numpy(), 2 + softplus(freedom), SCALE.numpy() * mean, spread).squeeze(1)
    found = scaled_head("student_t").distribution(outputs(3), SCALE).log_prob(y)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("link", ["log", "softplus"])
def test_negative_binomial_has_the_mean_of_its_link_and_the_variance_of_the_paper(link: Link) -> None:
    output, raw = outputs(2).T.unsqueeze(2).numpy()
    mean = SCALE.numpy() * (np.exp(output) if link == "log" else 1e-6 + softplus(output))
    shape = (1e-6 + softplus(raw)) / np.sqrt(SCALE.numpy())
    y = torch.tensor([[4.0], [700.0]], dtype=torch.float64)
    expected = stats.nbinom.logpmf(y.numpy(), 1 / shape, 1 / (1 + shape * mean)).squeeze(1)
    found = scaled_head("negative_binomial", link).distribution(outputs(2), SCALE)
    np.testing.assert_allclose(found.log_prob(y), expected, rtol=1e-10)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.variance, mean + shape * mean**2, rtol=1e-12)


def test_large_counts_keep_their_precision_in_single_precision() -> None:
    head, scale = scaled_head("negative_binomial"), torch.tensor([[20000.0]])
    single = torch.tensor([[0.2, -8.0]])
    y = torch.tensor([[16000.0]], dtype=torch.float64)
    found = head.distribution(single, scale).log_prob(y)
    exact = head.distribution(single.double(), scale.double()).log_prob(y)
    assert float(abs(found - exact)) < 1e-9


@pytest.mark.parametrize("name", ["auto", "gaussian", "student_t", "negative_binomial"])
def test_twice_the_scale_gives_twice_the_mean_of_samples(name: str) -> None:
    head = scaled_head(name)
    assert isinstance(head, ScaledHead)
    rows = torch.full((20000, head.numbers), 0.5)
    means = [
        float(draw(head.distribution(rows, torch.full((20000, 1), scale)), torch.Generator().manual_seed(0)).mean())
        for scale in (50.0, 100.0)
    ]
    assert means[1] / means[0] == pytest.approx(2, rel=0.06)
    whole = draw(head.distribution(rows, torch.full((20000, 1), 50.0)), torch.Generator().manual_seed(0))
    assert torch.equal(whole, whole.round()) == head.counts


def test_a_head_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="auto, gaussian, student_t, negative_binomial"):
        scaled_head("poisson")
    with pytest.raises(UsageError, match="link is that of the mean of counts; leave it out, or take head=negative_bin"):
        scaled_head("gaussian", "log")
    with pytest.raises(UsageError, match="log, softplus"):
        scaled_head("negative_binomial", "logit")  # type: ignore[arg-type]


def test_by_the_log_link_no_mean_overflows() -> None:
    far = scaled_head("negative_binomial").distribution(torch.tensor([[1e4, 0.0], [-1e4, 0.0]]), torch.ones(2, 1))
    assert far.mean.log().flatten().tolist() == pytest.approx([15, -15])
    assert bool(far.sample().isfinite().all())


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        (stats.poisson.rvs(3.0, size=(5, 40, 2), random_state=0), True),
        (stats.nbinom.rvs(2, 0.01, size=(5, 40, 2), random_state=0), True),
        (stats.poisson.rvs(3.0, size=(5, 40, 2), random_state=0) - 1, False),
        (stats.poisson.rvs(3.0, size=(5, 40, 2), random_state=0) / 2, False),
        (
            20 + stats.randint.rvs(-1, 2, size=(5, 40, 2), random_state=0).cumsum(1) % 5,
            False,
        ),  # degrees of a thermometer
        (np.zeros((5, 40, 2)), False),
    ],
)
def test_the_head_of_counts_is_chosen_by_the_values_alone_and_once(values: Any, counts: bool) -> None:
    head = scaled_head("auto")
    assert isinstance(head, ScaledByValues)
    assert not head.counts  # before it has seen values
    series = torch.tensor(values, dtype=torch.float64)
    holes = series.clone()
    holes[:, ::7] = torch.nan
    head.choose([holes[:2], holes[2:]])
    assert head.counts == counts
    assert (head.link == "log") == counts
    rows, scale = outputs(6), SCALE.expand(2, 2)
    name, used = ("negative_binomial", 4) if counts else ("student_t", 6)
    y = torch.tensor([[4.0, 0.0], [700.0, 9.0]], dtype=torch.float64)
    wanted = scaled_head(name).distribution(rows[:, :used], scale).log_prob(y)
    assert torch.equal(head.distribution(rows, scale).log_prob(y), wanted)
    again = ScaledByValues()
    again.load_state_dict(head.state_dict())
    again.choose([series + 0.5 if counts else series.abs().round() + 50 * torch.eye(40, 2)])
    assert again.counts == counts  # what has been trained is not changed by other data


def test_the_index_of_dispersion_of_poisson_counts_is_one() -> None:
    for mean in (0.3, 4.0, 90.0):
        first, second = stats.poisson.rvs(mean, size=(2, 400_000), random_state=1)
        both = first + second
        assert float(((first - second) ** 2 / np.maximum(both, 1))[both > 0].mean()) == pytest.approx(1, abs=0.01)
