"""Pictures of many classes and of classes with long names are drawn in seconds, and small."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

import deepcanon as dc
from deepcanon.core import Labeled
from deepcanon.pictures import run_pictures
from deepcanon.pictures.matrices import confusion
from deepcanon.pictures.points import decision_map
from deepcanon.pictures.scene import Scene
from deepcanon.pictures.style import LONGEST_TITLE


def longest_text(figure: Figure) -> int:
    figure.canvas.draw()
    return max(len(text.get_text()) for text in figure.findobj(Text))


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
def test_long_names_are_cut() -> None:
    names = [letter * 130_000 for letter in "xyz"]
    x, y = torch.randn(9, 2), torch.arange(9) % 3
    shares = torch.eye(3)
    for figure in (
        confusion(torch.eye(3), names, "t" * 130_000),
        decision_map(lambda x: shares[(x[:, 0] > 0).long() + (x[:, 1] > 0).long()], x, y, names),
    ):
        assert longest_text(figure) <= LONGEST_TITLE


class Guess(torch.nn.Module):
    """A classifier of points that is equally sure of all its classes."""

    def predict(self, x: torch.Tensor, how: str = "mode", generator: Any = None) -> torch.Tensor:
        shares = torch.full((len(x), 400), 1 / 400)
        return shares.argmax(1) if how == "mode" else shares


def test_more_classes_than_colors_have_no_map_of_regions() -> None:
    data = dc.from_tensors(torch.randn(400, 2), torch.arange(400))
    assert isinstance(data.train, Labeled)
    drawn = run_pictures._classified(Scene.of(Guess(), data, 0))  # type: ignore[arg-type]
    assert list(drawn) == ["confusion"]
