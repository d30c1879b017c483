"""Windows are cut and split by time; series and videos come from tensors with the sizes of a model."""

from typing import Any

import numpy as np
import pytest
import torch

from deepcanon.core import DataError, Series, UsageError, Videos
from deepcanon.data import from_tensors, load_data
from deepcanon.data.sets.series import GIVEN, HOURS, SHAPE, STEPS, best_paths, demand
from deepcanon.data.time_series import split_by_time, windows
from deepcanon.losses import crps


def long(lengths: list[int]) -> Series:
    most = max(lengths)
    times = torch.arange(most).expand(len(lengths), -1)
    x = times.unsqueeze(2) + 100.0 * torch.arange(len(lengths)).view(-1, 1, 1)
    ids = torch.arange(len(lengths)).unsqueeze(1)
    return Series(x, torch.tensor(lengths), torch.ones(len(lengths), dtype=torch.long), x + 0.5, ids, times)


def test_windows_hold_consecutive_steps_of_one_series() -> None:
    found = windows(long([9, 4, 6]), given=3, steps=2, every=2)
    assert found.x[:, :, 0].tolist() == [[0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [4, 5, 6, 7, 8], [200, 201, 202, 203, 204]]
    assert found.covariates is not None
    assert torch.equal(found.covariates, found.x + 0.5)
    assert found.statics is not None
    assert found.statics.flatten().tolist() == [0, 0, 0, 2]
    assert found.origins.tolist() == [3] * 4
    with pytest.raises(DataError, match="no series has the 10 steps of a window; the longest has 9"):
        windows(long([9, 4]), given=8, steps=2)


def test_a_split_by_time_never_trains_on_what_is_predicted_later() -> None:
    train, valid, test = split_by_time(long([20, 16]), given=4, steps=3, every=1, tests=2)
    for series, end in ((0, 20), (1, 16)):
        trained, validated, tested = (predicted(part, series) for part in (train, valid, test))
        assert max(trained) < min(validated)
        assert sorted(validated) == list(range(end - 9, end - 6))
        assert sorted(tested) == list(range(end - 6, end))
        given = {int(t) for row in rows_of(train, series) for t in row}
        assert max(given) < end - 9, "not even as given steps"
    with pytest.raises(DataError, match="at least 16 steps; the shortest has 12"):
        split_by_time(long([20, 12]), given=4, steps=3, tests=2)


def rows_of(part: Series, series: int) -> Any:
    assert part.statics is not None
    assert part.times is not None
    return part.times[part.statics[:, 0] == series]


def predicted(part: Series, series: int) -> list[int]:
    return [int(time) for row in rows_of(part, series) for time in row[int(part.origins[0]) :]]


def test_the_set_of_series_is_split_by_time_and_has_its_counts_and_covariates() -> None:
    data: Any = load_data("series")
    assert (data.kind, data.shape, len(data.test)) == ("series", (GIVEN + STEPS, 1), 240)
    assert data.train.times.max() < data.valid.times[:, GIVEN:].min()
    assert data.valid.times.max() < data.test.times[:, GIVEN:].min()
    assert torch.equal(data.train.x, data.train.x.round())
    hour = data.train.times % HOURS * 2 * torch.pi / HOURS
    torch.testing.assert_close(data.train.covariates[..., 0], hour.sin().float(), atol=1e-5, rtol=0)
    totals = data.train.x.mean((1, 2))
    assert float(totals.max() / totals.min()) > 1000  # many sizes


def test_the_counts_have_the_mean_and_the_variance_that_are_documented() -> None:
    known = demand(200, 14, seed=3)
    whole, mean = known.series, torch.from_numpy(known.mean)
    counts = whole.x[..., 0].double()
    spread = (mean + SHAPE * mean**2).sqrt()
    standard = (counts - mean) / spread
    assert abs(float(standard.mean())) < 0.02
    assert float(standard.var()) == pytest.approx(1, abs=0.05)
    assert whole.covariates is not None
    offer = whole.covariates[..., 3]
    assert float(offer.mean()) == pytest.approx(1 / 8, abs=0.02)
    assert float(mean[offer == 1].log().mean() - mean[offer == 0].log().mean()) == pytest.approx(np.log(2.5), abs=0.3)


@pytest.mark.slow
def test_the_best_forecast_is_calibrated_and_its_filter_finds_the_drift() -> None:
    known = demand(300, 3, seed=4)
    generator = torch.Generator().manual_seed(0)
    paths = best_paths(known, 48, STEPS, 400, generator)
    truth = known.series.x[:, 48:, 0].double()
    below = (paths < truth).double().mean(0) + torch.rand(truth.shape) * (paths == truth).double().mean(0)
    for level in (0.1, 0.5, 0.9):  # the shares of 300 items, which are independent, at each hour
        assert float((below <= level).double().mean()) == pytest.approx(level, abs=0.03)
    score = crps(paths, truth)
    blind = crps(best_paths(known, 0, 48 + STEPS, 400, generator)[..., 48:], truth)  # no count has been seen
    sighted = torch.distributions.NegativeBinomial(1 / SHAPE, logits=(SHAPE * torch.from_numpy(known.mean)).log())
    torch.manual_seed(0)
    knowing = crps(sighted.sample((400,))[..., 48:], truth)  # the drift to come is known, too
    assert float(knowing.mean()) < float(score.mean()) < float(blind.mean())
    ahead = score.mean(0)
    assert float(ahead[:6].mean()) < 0.95 * float(blind.mean(0)[:6].mean())


def test_series_come_from_tensors_with_their_sizes() -> None:
    x = np.full((4, 6, 2), np.nan)
    x[:, :5] = 1.0
    data = from_tensors(x, lengths=[5, 4, 3, 5], covariates=np.zeros((4, 9, 3)), statics=[[0], [5], [2], [2]])
    assert (data.kind, dict(data.sizes)) == ("series", {"features": 2, "covariates": 3, "statics": 6})
    assert data.train.x.dtype == data.train.covariates.dtype == torch.float32
    assert data.train.origins.tolist() == [2, 2, 1, 2]
    assert (
        from_tensors(torch.ones(3, 4, 1, dtype=torch.float64), lengths=4, origins=[1, 2, 3]).train.weight == 3 + 2 + 1
    )
    watched = data.with_validation_split(seed=0)
    assert watched.valid is not None
    assert torch.equal(watched.valid.origins, watched.train.lengths)
    assert data.fingerprint() != from_tensors(x, lengths=[5, 4, 3, 4]).fingerprint()


def test_videos_come_from_tensors_with_the_sizes_of_their_frames() -> None:
    data = from_tensors(torch.zeros(2, 5, 1, 4, 6), lengths=[5, 3])
    assert isinstance(data.train, Videos)
    assert data.kind == "videos"
    assert {name: data.sizes[name] for name in ("channels", "height", "width", "length")} == {
        "channels": 1, "height": 4, "width": 6, "length": 5,
    }  # fmt: skip
    assert data.train.weight == 8
    assert len(data.with_validation_split(seed=0).train) == 1


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: from_tensors(torch.zeros(3, 2), lengths=[1, 2, 2]), DataError, "tokens"),
        (lambda: from_tensors(torch.zeros(3, 2), statics=[[1]] * 3), UsageError, "have no statics"),
        (lambda: from_tensors(torch.zeros(2, 5, 1, 4, 6), lengths=5, origins=[1, 2]), UsageError, "have origins"),
        (lambda: from_tensors(torch.zeros(2, 5, 1, 4, 6), [0, 1], lengths=5), UsageError, "no labels"),
        (lambda: from_tensors(torch.full((3, 4, 1), torch.nan), lengths=4), DataError, "NaN"),
        (lambda: from_tensors(torch.zeros(3, 4, 1), lengths=[4, 4, 5]), DataError, "from 1 to 4"),
        (lambda: from_tensors(torch.zeros(3, 4, 1), lengths=[4.0, 4.0, 4.0]), DataError, "whole numbers"),
        (lambda: from_tensors(torch.zeros(3, 4, 1), lengths=4, origins=[1, 5, 1]), DataError, "not after the last"),
        (lambda: from_tensors(torch.zeros(3, 4, 1), lengths=4, statics=[[0], [-1], [0]]), DataError, "count from 0"),
        (lambda: from_tensors(torch.zeros(3, 28, 28)), DataError, "lengths, 28 for all"),
        (lambda: from_tensors(torch.zeros(3), lengths=1), DataError, "N, T, features"),
    ],
)
def test_wrong_tensors_are_refused(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()
