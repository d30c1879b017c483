import numpy as np
import torch

from deepcanon.pictures import confusion


def test_shades_are_shares_of_the_row_and_counts_stand_in_the_cells() -> None:
    matrix = torch.tensor([[8, 2, 0], [0, 5, 0], [0, 0, 0]])  # the third class never occurs
    axes = confusion(matrix, ("a", "b", "c"), "title").axes[0]
    shares = np.asarray(axes.images[0].get_array())
    assert np.allclose(shares, [[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    cells = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in axes.texts}
    assert cells == {(0, 0): "8", (0, 1): "2", (1, 1): "5"}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert axes.get_title(loc="left") == "title"


def test_many_classes_are_drawn_without_counts() -> None:
    axes = confusion(torch.eye(100, dtype=torch.long)).axes[0]
    assert len(axes.texts) == 0
    assert len(axes.get_xticks()) == 10
