"""Bars say the numbers that they were given, and singular values those of the update."""

import numpy as np
import pytest
import torch

from deepcanon.pictures.bars import SHOWN, share_bars, update_norms


def test_bars_are_as_long_as_their_shares() -> None:
    axes = share_bars({"plain": 0.5, "better": 0.875}, "accuracy").axes[0]
    assert [bar.get_width() for bar in axes.patches] == [0.5, 0.875]  # type: ignore[attr-defined]
    assert [text.get_text() for text in axes.texts] == ["50.0%", "87.5%"]


def test_updates_are_shown_by_size_and_singular_values() -> None:
    random = torch.Generator().manual_seed(0)
    before = torch.randn(5, 4, generator=random)
    update = torch.randn(5, 2, generator=random) @ torch.randn(2, 4, generator=random)
    left, right = update_norms({"net.0": (before, update), "net.2": (before, torch.zeros(5, 4))}).axes
    widths = [bar.get_width() for bar in left.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx([float(update.norm() / before.norm()), 0.0])
    values = np.linalg.svd(update.double().numpy(), compute_uv=False)[:2]
    np.testing.assert_allclose(np.asarray(right.lines[0].get_ydata(), dtype=float), values, rtol=1e-5)
    assert len(np.asarray(right.lines[1].get_ydata())) == 1


def test_of_many_layers_the_largest_updates_are_shown() -> None:
    weight = torch.eye(3)
    left, _ = update_norms({f"layer {i}": (weight, weight * i) for i in range(2 * SHOWN)}).axes
    assert len(left.patches) == SHOWN
    assert left.get_yticklabels()[0].get_text() == f"layer {SHOWN}"
