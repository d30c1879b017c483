"""Fans of forecasts stand where the steps are, at the quantiles of the paths, with the truth where it is known."""

from datetime import datetime
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from deepcanon.core import Series
from deepcanon.core.calendar import Calendar
from deepcanon.core.series_legend import SeriesLegend
from deepcanon.pictures.forecasts import FANS, forecast_fans, forecast_picture


def drawn(axes: Axes) -> dict[str, tuple[Any, Any]]:
    return {str(line.get_label()): line.get_data() for line in axes.lines}


def some(times: bool = False) -> Series:
    x = torch.arange(16.0).view(2, 8, 1)
    ids = torch.tensor([[4], [7]])
    hours = 100 + 2 * torch.arange(8).expand(2, -1)
    return Series(x, torch.tensor([8, 6]), torch.tensor([5, 5]), statics=ids, times=hours if times else None)


def test_past_truth_and_quantiles_are_at_their_steps() -> None:
    paths = torch.rand(200, 2, 3, 1, generator=torch.Generator().manual_seed(0))
    first, second = forecast_fans(paths, some(), "title").axes
    lines = drawn(first)
    assert np.asarray(lines["past"]).tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert np.asarray(lines["truth"]).tolist() == [[4, 5, 6, 7], [4, 5, 6, 7]]  # it goes on where the past ends
    np.testing.assert_allclose(lines["median"][1], paths[:, 0, :, 0].quantile(0.5, 0), rtol=1e-6)
    for fan, (low, high, _) in zip(first.collections, FANS, strict=True):
        box = fan.get_paths()[0].get_extents()
        least, most = (paths[:, 0, :, 0].quantile(level, 0) for level in (low, high))
        np.testing.assert_allclose(
            [box.x0, box.x1, box.y0, box.y1], [5, 7, float(least.min()), float(most.max())], rtol=1e-6
        )
    assert np.asarray(drawn(second)["truth"]).tolist() == [[4, 5], [12, 13]]  # beyond the length is padding
    assert first.get_title(loc="left") == "series 4"


def test_beyond_the_known_times_the_clock_goes_on() -> None:
    paths = torch.rand(10, 2, 6, 1, generator=torch.Generator().manual_seed(0))
    first, second = forecast_fans(paths, some(times=True)).axes
    assert np.asarray(drawn(first)["median"][0]).tolist() == [110, 112, 114, 116, 118, 120]
    assert np.asarray(drawn(second)["median"][0]).tolist() == [110, 112, 114, 116, 118, 120]
    assert np.asarray(drawn(second)["truth"][0]).tolist() == [108, 110]


def test_series_of_a_file_have_its_names_its_dates_and_its_units() -> None:
    calendar = Calendar("month", 1, 2024 * 12 + 10, day=31, pattern="%Y-%m-%d")
    legend = SeriesLegend(
        "store", "day", ("a", "b"), ("sales",), ((10.0,), (20.0,)), ((2.0,), (3.0,)), calendar
    )  # fmt: skip
    x, full = torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([3])
    series = Series(x, full, full - 1, statics=torch.tensor([[1]]), times=torch.tensor([[0, 1, 2]]), legend=legend)
    figure = forecast_fans(torch.zeros(10, 1, 2, 1), series)
    (axes,) = figure.axes
    lines = drawn(axes)
    assert lines["past"][0].tolist() == [datetime(2024, 11, 30), datetime(2024, 12, 31)]
    assert lines["median"][0].tolist() == [datetime(2025, 1, 31), datetime(2025, 2, 28)]
    assert [np.asarray(lines[name][1]).tolist() for name in ("past", "truth", "median")] == [
        [23, 26],
        [26, 29],
        [20, 20],
    ]
    assert (axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()) == ("b", "day", "sales")
    figure.canvas.draw()
    assert any("2025" in label.get_text() for label in axes.get_xticklabels())


class Last:
    """The last value is repeated."""

    def forecast(self, past: Any, steps: int, *, samples: int = 100, context: Any = None, generator: Any = None) -> Any:
        last = past.x[torch.arange(len(past)), past.lengths - 1]
        return last.view(1, -1, 1, 1).expand(samples, -1, steps, -1)


def test_a_models_forecasts_begin_at_the_origins_of_the_series_that_are_known_longest() -> None:
    (axes,) = forecast_picture(Last(), some(), "title").axes
    assert np.asarray(drawn(axes)["median"]).tolist() == [[5, 6, 7], [4, 4, 4]]
