"""Pictures of completed tables show every entry that there is."""

from __future__ import annotations

from typing import Any

import torch

from deepcanon.pictures.completions import completion, held_out_plot


def test_both_panels_show_the_rows_and_only_one_has_gaps() -> None:
    full = torch.rand(8, 40) * 4 + 1
    x = full.masked_fill(torch.rand(8, 40) < 0.5, torch.nan)
    figure = completion(x, full, "title")
    shown: list[Any] = [axes.images[0].get_array() for axes in figure.axes[:2]]
    given, completed = shown
    assert given.shape == completed.shape == (8, 40)
    assert int(given.mask.sum()) == int(x.isnan().sum())
    assert not completed.mask.any()
    rated = completion(torch.rand(40, 5), torch.rand(40, 5), axes_names=("item", "user"))
    assert len(rated.axes) == 3
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in rated.axes[:2]] == [("item", "user")] * 2


def test_predictions_are_grouped_by_their_truth() -> None:
    truth = torch.tensor([1.0, 1.0, 2.0, 5.0])
    figure = held_out_plot(torch.tensor([1.5, 0.5, 2.5, 4.0]), truth)
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "5"]
    assert "4 held-out entries: rmse 0.661" in axes.get_title(loc="left")
