"""A legend takes the numbers of series back to the names, the times and the units of their file."""

from dataclasses import replace

import torch
from torch.distributions import AffineTransform, Normal, TransformedDistribution

from deepcanon.core import Series
from deepcanon.core.calendar import Calendar
from deepcanon.core.series_legend import SeriesLegend

LEGEND = SeriesLegend(
    "store", "day", ("a", "b", "c"), ("x", "y"),
    ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0)), ((0.5, 2.0), (3.0, 0.1), (1.0, 1.0)),
    Calendar("month", 1, 2024 * 12, pattern="%Y-%m"),
)  # fmt: skip


def some(ids: list[int], lengths: list[int], origins: list[int]) -> Series:
    x = torch.randn(len(ids), 5, 2, generator=torch.Generator().manual_seed(0))
    times = torch.arange(5).expand(len(ids), -1)
    return Series(
        x, torch.tensor(lengths), torch.tensor(origins), statics=torch.tensor(ids).unsqueeze(1), times=times,
        legend=LEGEND,
    )  # fmt: skip


def test_values_are_multiplied_and_moved_back_series_by_series() -> None:
    series = some([2, 0], [5, 5], [3, 3])
    paths = torch.ones(7, 2, 4, 2)
    found = LEGEND.in_units(paths, series)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found[3, 0, 1], torch.tensor([6.0, 7.0], dtype=torch.float64))
    torch.testing.assert_close(found[3, 1, 1], torch.tensor([1.5, 4.0], dtype=torch.float64))
    assert LEGEND.names_of(series) == ["c", "a"]
    assert LEGEND.texts([0, 13, 0]) == ["2024-01", "2025-02", "2024-01"]


def test_the_log_density_in_the_units_of_the_file_is_that_of_the_transformed_values() -> None:
    series = some([1, 0, 1], [5, 4, 5], [2, 3, 3])
    standard, plain, steps = Normal(0.0, 1.0), 0.0, 0
    total = 0.0
    units = LEGEND.in_units(series.x, series)
    for row, (place, end, origin) in enumerate([(1, 5, 2), (0, 4, 3), (1, 5, 3)]):
        for feature in range(2):
            moved = TransformedDistribution(
                standard, [AffineTransform(LEGEND.means[place][feature], LEGEND.scales[place][feature])]
            )
            total += float(moved.log_prob(units[row, origin:end, feature].float()).sum())
            plain += float(standard.log_prob(series.x[row, origin:end, feature]).sum())
        steps += end - origin
    assert abs(plain / steps + LEGEND.log_det(series) - total / steps) < 1e-5


def test_values_in_the_units_of_a_file_have_no_digits_that_single_precision_has_made_up() -> None:
    legend = replace(LEGEND, means=((104.567,), (5e6,), (0.0068,)), scales=((32.8741,), (0.5,), (1e-4,)))
    given = torch.tensor([[89.18], [5e6 + 0.25], [0.006838]], dtype=torch.float64).unsqueeze(2)
    series = some([0, 1, 2], [1, 1, 1], [1, 1, 1])
    means, scales = (torch.tensor(each, dtype=torch.float64).unsqueeze(1) for each in (legend.means, legend.scales))
    standard = replace(series, x=((given - means) / scales).float(), times=series.times[:, :1])  # type: ignore[index]
    assert [f"{value:.9g}" for value in legend.as_given(standard).x.flatten().tolist()] == [
        "89.18", "5000000.25", "0.006838",
    ]  # fmt: skip
    assert f"{float(legend.in_units(standard.x, standard)[0]):.9g}" != "89.18"
