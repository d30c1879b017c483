"""DeepAR's likelihood is that of torch's LSTM by hand; on a known process it finds the exact one and its quantiles."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Generator, Tensor, nn

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import DataError, Series, UsageError
from deepcanon.laws.forecaster import quantiles_are_calibrated
from deepcanon.models.recurrent._forecaster import LEVELS, PATHS
from deepcanon.models.recurrent.deepar import DeepAR

HEADS = ["gaussian", "student_t", "negative_binomial"]


def ragged(counts: bool = False, features: int = 2) -> Series:
    """Series of unequal length and size, with covariates that reach beyond them and two ids each."""
    generator = Generator().manual_seed(0)
    x = 20 * torch.randn(6, 9, features, generator=generator, dtype=torch.float64)
    return Series(
        (x.abs() / 5).round() if counts else x,
        lengths=torch.tensor([9, 4, 7, 9, 5, 6]),
        origins=torch.tensor([3, 2, 1, 8, 4, 2]),
        covariates=torch.randn(6, 13, 3, generator=generator, dtype=torch.float64),
        statics=torch.tensor([[0, 4], [1, 5], [2, 6], [3, 4], [0, 5], [1, 6]]),
    )


def made(head: str, **arguments: Any) -> DeepAR:
    torch.manual_seed(1)
    settings = {"features": 2, "covariates": 3, "statics": 7, "units": 5, "layers": 2, "embedding": 3, **arguments}
    return DeepAR(head=head, **settings).double()


def by_hand(model: DeepAR, series: Series, row: int) -> float:
    """The log-likelihood of one series, step by step, by torch.nn.LSTM and scipy."""
    theirs = nn.LSTM(model.width, 5, 2).double()
    theirs.load_state_dict(model.recurrent.state_dict())
    assert series.covariates is not None
    assert series.statics is not None
    assert model.embedding is not None
    end, origin = int(series.lengths[row]), int(series.origins[row])
    z, known = series.x[row, :end], series.covariates[row]
    size = z[:origin].abs().mean(0)
    scale, fixed = 1 + size, (1 + size).log()
    if model.differenced:
        changes = (z[1:origin] - z[: origin - 1]).abs()
        scale = (changes.mean(0) if origin > 1 else 0.0) + 1e-4 * size
        fixed = (1 + size / scale).log()
    fixed = torch.cat([fixed, model.embedding.weight[series.statics[row]].sum(0)])
    total, state, nothing = 0.0, None, torch.zeros_like(scale)
    for step in range(end):
        level = z[step - 1] if model.differenced and step else nothing
        lagged = [(z[step - lag] - level) / scale if step >= lag else nothing for lag in model.lags]
        if getattr(model.likelihood, "link", None) == "log":
            lagged = [(value + 1 / scale).log() for value in lagged]  # log((1 + z) / scale)
        hidden, state = theirs(torch.cat([*lagged, known[step], fixed]).view(1, 1, -1), state)
        if step >= origin:
            numbers = model.parameters_of(hidden.flatten()).view(-1, 2).detach().numpy()
            total += log_density(model.likelihood, numbers, (z[step] - level).numpy(), scale.numpy())
    return total


def log_density(likelihood: Any, numbers: Any, z: Any, scale: Any) -> float:
    head = type(likelihood).__name__
    positive = np.log1p(np.exp(numbers))
    if head == "ScaledGaussian":
        found = stats.norm.logpdf(z, scale * numbers[0], scale * (1e-3 + positive[1]))
    elif head == "ScaledStudentT":
        found = stats.t.logpdf(z, 2 + positive[2], scale * numbers[0], scale * (1e-3 + positive[1]))
    else:
        mean = scale * (np.exp(numbers[0]) if likelihood.link == "log" else 1e-6 + positive[0])
        shape = (1e-6 + positive[1]) / np.sqrt(scale)
        found = stats.nbinom.logpmf(z, 1 / shape, 1 / (1 + shape * mean))
    return float(found.sum())


INPUTS: list[dict[str, Any]] = [{}, {"lags": (1, 3)}, {"differenced": True}, {"differenced": True, "lags": (5, 1, 3)}]


@pytest.mark.parametrize(
    ("head", "inputs"),
    [
        *((head, inputs) for head in HEADS for inputs in INPUTS if not (head == HEADS[2] and "differenced" in inputs)),
        (HEADS[2], {"link": "softplus"}),
    ],
)
def test_the_likelihood_is_that_of_torchs_lstm_by_hand(head: str, inputs: dict[str, Any]) -> None:
    model, series = made(head, **inputs), ragged(counts=head == "negative_binomial")
    with torch.no_grad():
        expected = [by_hand(model, series, row) for row in range(6)]
        np.testing.assert_allclose(model.log_prob(series), expected, rtol=1e-10)
        assert model.loss(series)["nll"].item() == pytest.approx(-sum(expected) / series.weight, rel=1e-10)
        steps = model.step_log_probs(series)
    inside = torch.arange(9)
    predicted = (inside >= series.origins.unsqueeze(1)) & (inside < series.lengths.unsqueeze(1))
    assert torch.equal(steps != 0, predicted)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_with_covariates_ids_and_every_head_it_keeps_the_laws_of_forecasters(head: str) -> None:
    model, series = made(head, features=1), ragged(counts=head == "negative_binomial", features=1)
    found = laws.check((model, series), "forecaster")
    assert len(found) == 11
    assert all(outcome.holds for outcome in found), laws.report(found)
    model.loss(series)["nll"].backward()
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in model.parameters())


@pytest.mark.parametrize("inputs", INPUTS)
def test_a_path_is_drawn_from_the_likelihood_of_what_came_before_it(inputs: dict[str, Any]) -> None:
    model, series = made("gaussian", **inputs), ragged()
    paths = model.forecast(series.past, 4, samples=2, generator=Generator().manual_seed(0))
    rows = torch.arange(6).repeat(2)
    past = series.past.select(rows)
    whole = torch.nn.functional.pad(past.x, (0, 0, 0, 4))
    places = (past.lengths.unsqueeze(1) + torch.arange(4)).unsqueeze(2).expand(-1, -1, 2)
    whole.scatter_(1, places, paths.view(12, 4, 2))
    each = model.distribution(replace(past, x=whole, lengths=past.lengths + 4, origins=past.lengths))
    mean, deviation = (part.gather(1, places) for part in (each.mean, each.stddev))
    torch.manual_seed(0)
    for step in range(4):
        drawn = torch.normal(mean[:, step], deviation[:, step])
        torch.testing.assert_close(drawn, paths.view(12, 4, 2)[:, step], rtol=1e-10, atol=1e-10)


def test_values_that_are_missing_are_neither_read_nor_predicted() -> None:
    series = ragged()
    holes = series.x.clone()
    holes[0, 1], holes[0, 5], holes[2, 3, 0], holes[3, :8] = (math.nan,) * 4
    pierced = replace(series, x=holes)
    assert pierced.weight == series.weight - 1  # the step of row 2 has another value
    filled = holes.clone()
    filled[0, 1], filled[0, 5], filled[2, 3, 0], filled[3, :8] = holes[0, 0], holes[0, 4], holes[2, 2, 0], 0.0
    for inputs in INPUTS:
        model = made("student_t", **inputs)
        with torch.no_grad():
            steps, wanted = model.step_log_probs(pierced), model.step_log_probs(replace(series, x=filled))
            assert float(steps[0, 5]) == 0
            steps[0, 5] = wanted[0, 5]
            assert float((steps - wanted)[2, 3]) != 0  # of one of its two values
            steps[2, 3] = wanted[2, 3]
            torch.testing.assert_close(steps, wanted, rtol=0, atol=1e-12)
            found = model.metrics(pierced)
        assert all(math.isfinite(value) for value in found.values())
        paths = model.forecast(pierced.past, 2, samples=3, generator=Generator().manual_seed(0))
        again = model.forecast(replace(series, x=filled).past, 2, samples=3, generator=Generator().manual_seed(0))
        assert torch.equal(paths, again)
    model.prepare([pierced])
    data = dc.from_tensors(
        holes, lengths=series.lengths, origins=series.origins, covariates=series.covariates, statics=series.statics
    )
    assert math.isfinite(dc.fit(made("gaussian"), data, steps=2, batch_size=3, quiet=True).train["nll"])


@pytest.mark.parametrize("counts", [False, True])
def test_unless_it_is_given_the_head_is_the_one_that_suits_the_training_values(counts: bool) -> None:
    model, series = made("auto", features=1), ragged(counts, features=1)
    model.prepare([series])
    assert model.likelihood.counts == counts
    same = made("negative_binomial" if counts else "student_t", features=1)
    weights = model.state_dict()
    for name in ("parameters_of.weight", "parameters_of.bias"):
        weights[name] = weights[name][: same.parameters_of.out_features]
    same.load_state_dict({name: value for name, value in weights.items() if name != "likelihood.chosen"})
    again = made("auto", features=1)
    again.load_state_dict(model.state_dict())
    for other in (model, again):
        assert torch.equal(other.log_prob(series), same.log_prob(series))
        drawn = other.forecast(series.past, 4, samples=2, generator=Generator().manual_seed(0))
        assert torch.equal(drawn, same.forecast(series.past, 4, samples=2, generator=Generator().manual_seed(0)))
    if counts:
        with pytest.raises(DataError, match="counts 0, 1, 2"):
            model.prepare([ragged(features=1)])
    assert not made("auto", differenced=True).likelihood.counts


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The tensor attributes self.recurrent:UserWarning")  # torch's LSTM, exported
def test_a_model_that_has_chosen_its_head_is_exported() -> None:
    model, series = made("auto").eval(), ragged(counts=True)
    model.prepare([series])
    exported: Any = torch.export.export(model, series.inputs).module()
    torch.testing.assert_close(exported(*series.inputs), model(*series.inputs))


def test_counts_are_not_differenced() -> None:
    with pytest.raises(UsageError, match="differences of counts are not counts; take head=gaussian or student_t"):
        made("negative_binomial", differenced=True)
    with pytest.raises(UsageError, match="lags must be at least 1"):
        made("gaussian", lags=(0, 1))


def test_single_precision_keeps_the_likelihood_of_large_counts() -> None:
    x = (torch.arange(60.0).view(3, 20, 1) * 7919 % 40000).round()
    series = Series(x, torch.full((3,), 20), torch.full((3,), 8))
    torch.manual_seed(0)
    model = DeepAR(1, head="negative_binomial")
    single = model.loss(series)["nll"].item()
    double = replace(series, x=x.double())
    assert single == pytest.approx(model.double().loss(double)["nll"].item(), rel=1e-5)


def test_metrics_are_those_of_paths_from_the_origin_over_the_steps_that_count() -> None:
    model, series = made("gaussian"), ragged()
    torch.manual_seed(3)
    found = model.metrics(series)
    torch.manual_seed(3)
    paths = model.forecast(replace(series.past, covariates=padded(series)), 6, samples=PATHS)
    scores: dict[str, list[float]] = {"crps": [], "quantile_loss": [], "coverage": []}
    for row in range(6):
        for step in range(int(series.lengths[row] - series.origins[row])):
            for feature in range(2):
                drawn = np.sort(paths[:, row, step, feature].numpy())
                truth = float(series.x[row, int(series.origins[row]) + step, feature])
                apart = np.abs(drawn[:, None] - drawn).sum() / (PATHS * (PATHS - 1))
                scores["crps"].append(np.abs(drawn - truth).mean() - apart / 2)
                quantiles = drawn[[round(50 * level) - 1 for level in LEVELS]]
                errors = truth - quantiles
                scores["quantile_loss"].append(np.maximum(LEVELS * errors, (np.array(LEVELS) - 1) * errors).mean())
                scores["coverage"].append(float(quantiles[0] <= truth <= quantiles[-1]))
    assert {name: value.item() for name, value in found.items()} == pytest.approx(
        {name: np.mean(values) for name, values in scores.items()}, rel=1e-10
    )


def padded(series: Series) -> Tensor:
    """Covariates with zeros beyond each series' end, and the last ones repeated, as they are where nothing counts."""
    assert series.covariates is not None
    inside = (torch.arange(9) < series.lengths.unsqueeze(1)).unsqueeze(2)
    known = series.covariates[:, :9].masked_fill(~inside, 0)
    return torch.cat([known, known[:, -1:].expand(-1, 6, -1)], 1)


def test_forecasts_take_the_covariates_to_come_from_the_series() -> None:
    model, series = made("student_t"), ragged()
    assert series.covariates is not None
    whole = model.forecast(series, 4, samples=5, generator=Generator().manual_seed(0))
    assert whole.shape == (5, 6, 4, 2)
    one = series.select(torch.tensor([1]))
    ends = int(one.lengths[0])
    assert one.covariates is not None
    cut = replace(one, covariates=torch.cat([one.covariates[:, :7], one.covariates[:, 7:] + 100], 1))
    assert ends < 7 < ends + 4  # so that some of the steps to come have other covariates
    moved = model.forecast(cut, 4, samples=5, generator=Generator().manual_seed(0))
    kept = model.forecast(one, 4, samples=5, generator=Generator().manual_seed(0))
    assert torch.equal(moved[:, :, : 7 - ends], kept[:, :, : 7 - ends])
    assert not torch.equal(moved[:, :, 7 - ends :], kept[:, :, 7 - ends :])
    with pytest.raises(DataError, match=r"covariates of the 5 steps to come, .*: give it series with covariates of 14"):
        model.forecast(series, 5)
    with pytest.raises(DataError, match="NaN"):
        model.forecast(replace(series, covariates=series.covariates * math.nan), 4)
    with pytest.raises(UsageError, match="steps must be at least 1"):
        model.forecast(series, 0)


@pytest.mark.parametrize("covariates", [0, 3])
def test_a_context_is_refused_by_likelihood_and_forecast_alike(covariates: int) -> None:
    model, series = made("gaussian", covariates=covariates, statics=0), ragged()
    series = replace(series, statics=None, covariates=series.covariates if covariates else None)
    future = torch.zeros(6, 4, 3)
    refusal = "takes no context; covariates are part of the series"
    with pytest.raises(UsageError, match=refusal):
        model.log_prob(series, context=future)
    with pytest.raises(UsageError, match=refusal):
        model.step_log_probs(series, context=future)
    with pytest.raises(UsageError, match=refusal):
        model.forecast(series, 4, context=future)


def test_a_tensor_is_a_batch_of_whole_series() -> None:
    model = made("gaussian", covariates=0, statics=0)
    x = ragged().x
    full = torch.full((6,), 9)
    assert torch.equal(model.log_prob(x), model.log_prob(Series(x, full, torch.ones_like(full))))
    first = model.forecast(x, 3, samples=2, generator=Generator().manual_seed(0))
    assert torch.equal(first, model.forecast(Series(x, full, full), 3, samples=2, generator=Generator().manual_seed(0)))
    with pytest.raises(UsageError, match="takes no context"):
        model.log_prob(x, context=x)
    with pytest.raises(UsageError, match="leave out samples"):
        model.log_prob(x, samples=3)


def test_series_that_the_model_is_not_built_for_are_refused() -> None:
    series = ragged()
    made("gaussian").prepare([series])
    for change, says in (
        ({"covariates": None}, "3 covariates, got 0"),
        ({"statics": None}, "needs ids from 0 to 6, and the series come without"),
        ({"statics": torch.full((6, 1), 7)}, "ids 0 to 6, got some from 7 to 7"),
        ({"x": series.x[..., :1]}, "2 features, got 1"),
        ({"x": series.x.masked_fill(series.x > 30, math.inf)}, "infinite values; write NaN where a value is missing"),
        ({"x": torch.full_like(series.x, math.nan)}, "no value to learn from: all after the forecast origins"),
        ({"covariates": torch.full((6, 13, 3), math.inf)}, "covariates have NaN or infinite"),
    ):
        with pytest.raises(DataError, match=says):
            made("gaussian").prepare([replace(series, **change)])
    with pytest.raises(DataError, match="counts 0, 1, 2"):
        made("negative_binomial").prepare([series])
    with pytest.raises(DataError, match="built without ids"):
        made("gaussian", statics=0).loss(series)


def test_accumulation_over_series_of_unequal_length_is_one_large_batch() -> None:
    series = ragged(features=1)
    data = dc.from_tensors(
        series.x, lengths=series.lengths, origins=series.origins, covariates=series.covariates, statics=series.statics
    )
    weights = []
    for accumulate in (1, 4):
        model = made("gaussian", features=1)
        dc.fit(model, data, steps=5, batch_size=6, accumulate=accumulate, quiet=True)
        weights.append(nn.utils.parameters_to_vector(model.parameters()).detach())
    torch.testing.assert_close(*weights, rtol=0, atol=1e-12)
    assert not torch.equal(weights[0], nn.utils.parameters_to_vector(made("gaussian", features=1).parameters()))


@pytest.mark.slow
def test_on_an_autoregression_it_finds_the_exact_likelihood_and_quantiles() -> None:
    memory, noise, steps, given = 0.8, 0.5, 24, 8
    generator = Generator().manual_seed(0)
    x = torch.randn(1200, steps, 1, generator=generator) * noise / math.sqrt(1 - memory**2)
    for step in range(1, steps):
        x[:, step] = memory * x[:, step - 1] + noise * torch.randn(1200, 1, generator=generator)
    held_out = dc.from_tensors(x[1000:], lengths=steps, origins=[given] * 200).train
    torch.manual_seed(0)
    model = DeepAR(features=1, units=16, layers=1, head="gaussian")
    dc.fit(
        model,
        dc.from_tensors(x[:1000], lengths=steps, origins=[given] * 1000),
        epochs=25,
        lr=1e-2,
        quiet=True,
        evaluate=False,
    )
    exact = torch.distributions.Normal(memory * held_out.x[:, given - 1 : -1], noise).log_prob(held_out.x[:, given:])
    nll = dc.evaluate(model, held_out)["nll"]
    assert nll == pytest.approx(-float(exact.mean()), abs=0.02)
    assert nll > -float(exact.mean()) - 0.005  # the truth is not beaten

    paths = model.forecast(held_out.past, 6, samples=2000, generator=Generator().manual_seed(1))
    for ahead in (1, 3, 6):
        deviation = noise * math.sqrt((1 - memory ** (2 * ahead)) / (1 - memory**2))
        mean = memory**ahead * held_out.x[:, given - 1, 0]
        for level in (0.1, 0.5, 0.9):
            wanted = mean + deviation * stats.norm.ppf(level)
            error = (paths[:, :, ahead - 1, 0].quantile(level, 0) - wanted) / deviation
            assert float(error.square().mean().sqrt()) < 0.15, (ahead, level)
    outcome = quantiles_are_calibrated(model, held_out)
    assert outcome is not None
    assert outcome.holds, outcome
