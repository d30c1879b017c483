"""Forecasts of a run: columns with the quantiles of the model's own paths, and the truth where it is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import Series, UsageError, Videos
from deepcanon.runs.forecasting import LEVELS, quantile_columns, sample_paths


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    x = torch.randn(8, 10, 2, generator=torch.Generator().manual_seed(0))
    data = dc.from_tensors(x, lengths=[10, 9, 8, 10, 7, 10, 10, 10], origins=[5] * 8)
    model = dc.find("deepar")(features=2, units=4, layers=1)
    out = tmp_path_factory.mktemp("forecasting") / "run"
    dc.fit(model, data, out=out, steps=3, quiet=True)
    return dc.Run(out), data.train


@pytest.mark.slow
def test_columns_are_quantiles_of_the_models_paths(run: Any) -> None:
    opened, series = run
    columns = opened.forecast(4, data=series, samples=20, seed=3)
    paths = opened.model.forecast(series.past, 4, samples=20, generator=torch.Generator().manual_seed(3))
    assert list(columns) == ["series", "step", "feature", "mean", *(f"q{level:g}" for level in LEVELS), "truth"]
    assert columns["step"][:10] == [1, 1, 2, 2, 3, 3, 4, 4, 1, 1]
    assert columns["feature"][:3] == [1, 2, 1]
    np.testing.assert_allclose(columns["q0.9"], paths.quantile(0.9, 0).flatten(), rtol=1e-6)
    np.testing.assert_allclose(columns["mean"], paths.mean(0).flatten(), rtol=1e-5, atol=1e-6)
    truth = np.array(columns["truth"], dtype=float).reshape(8, 4, 2)
    np.testing.assert_allclose(truth[0], series.x[0, 5:9])
    assert np.isnan(truth[4, 2:]).all()
    assert np.isfinite(truth[4, :2]).all()


def test_by_default_as_many_steps_are_forecast_as_all_series_can_be_compared_with(run: Any) -> None:
    opened, series = run
    assert sample_paths(opened.model, series, None, 3, 0).shape == (3, 8, 2, 2)
    with pytest.raises(UsageError, match="say how many steps"):
        opened.forecast(data=series.past)
    assert quantile_columns(sample_paths(opened.model, series.past, 2, 3, 0), series.past)["truth"] == [None] * 32


@pytest.mark.slow
def test_a_table_or_a_picture_is_written(run: Any, tmp_path: Path) -> None:
    opened, series = run
    opened.forecast(3, data=series, samples=5, out=tmp_path / "f.csv")
    lines = (tmp_path / "f.csv").read_text().splitlines()
    assert len(lines) == 1 + 8 * 3 * 2
    assert lines[-1].startswith("7,3,2,")
    opened.forecast(3, data=series, samples=5, out=tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 10_000
    with pytest.raises(UsageError, match=r"f\.csv"):
        opened.forecast(3, data=series, out=tmp_path / "f.csv")


def test_a_model_of_other_data_cannot_forecast(tmp_path: Path) -> None:
    model, batch = dc.find("gaussian").example()
    dc.fit(model, dc.from_tensors(batch.x), out=tmp_path / "run", quiet=True, steps=1)
    with pytest.raises(UsageError, match="cannot forecast"):
        dc.Run(tmp_path / "run").forecast(3)


def test_predictions_of_series_are_their_forecasts_and_of_nothing_else(run: Any) -> None:
    opened, series = run
    assert opened.predict(series) == opened.forecast(data=series)
    with pytest.raises(UsageError, match="forecasts are of time series or videos; these data are examples"):
        opened.predict(torch.zeros(3, 2))


def test_a_run_on_tensors_does_not_know_which_series_to_forecast(run: Any) -> None:
    opened, series = run
    assert isinstance(series, Series)
    with pytest.raises(UsageError, match="say which data"):
        opened.forecast(3)


def test_columns_say_when_the_steps_are() -> None:
    times = torch.tensor([[0.0, 2.0, 4.0, 6.0], [1.0, 2.0, 3.0, 0.0]])
    series = Series(torch.zeros(2, 4, 1), torch.tensor([4, 3]), torch.tensor([3, 3]), times=times)
    columns = quantile_columns(torch.zeros(5, 2, 3, 1), series)
    assert columns["time"] == [6.0, 8.0, 10.0, 4.0, 5.0, 6.0]


def test_videos_are_forecast_pixel_by_pixel_from_their_middle_on(tmp_path: Path) -> None:
    model, batch = dc.find("video_flow").example()
    videos = Videos(batch.x, torch.full_like(batch.lengths, 3))
    dc.fit(model, dc.from_tensors(videos.x, lengths=3), out=tmp_path / "run", steps=1, quiet=True)
    opened: Any = dc.Run(tmp_path / "run")
    picture = tmp_path / "f.png"
    columns = opened.forecast(data=videos, samples=5, seed=3, out=picture)
    assert picture.stat().st_size > 0
    assert list(columns)[:3] == ["video", "step", "pixel"]
    assert columns["pixel"][:5] == [1, 2, 3, 4, 1]
    given = Videos(videos.x[:, :1], torch.ones_like(videos.lengths))
    paths = opened.model.forecast(given, 2, samples=5, generator=torch.Generator().manual_seed(3))
    np.testing.assert_allclose(columns["q0.5"], paths.quantile(0.5, 0).flatten(), rtol=1e-6)
    np.testing.assert_allclose(columns["truth"], videos.x[:, 1:].flatten())
