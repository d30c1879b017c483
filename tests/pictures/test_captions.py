"""Each image stands above its caption, and a wrong one above the true one."""

import torch

from deepcanon.pictures.captions import captioned_images
from deepcanon.pictures.legibility import faults
from deepcanon.pictures.style import INK


def test_captions_stand_under_their_images_and_wrong_ones_are_marked() -> None:
    written = ["a two", "an eight left of a one left of a seven", ""]
    true = ["a two", "an eight left of a one left of a nine", "a four"]
    figure = captioned_images(torch.rand(3, 1, 4, 4), (1, 4, 4), written, true, columns=2, title="Captions")
    shown = [each.xaxis.label for each in figure.axes if each.images]
    assert [label.get_text().replace("\n", " ") for label in shown] == [
        "a two", f"{written[1]} \u2260 {true[1]}", "(nothing) \u2260 a four",
    ]  # fmt: skip
    assert [label.get_color() == INK for label in shown] == [True, False, False]
    assert faults(figure) == []
