"""Text with its probabilities: every letter where it belongs, on the ground of its own token."""

import math

import numpy as np
import pytest
import torch
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from torch import Generator, Tensor

from deepcanon.core import Context
from deepcanon.pictures import texts
from deepcanon.pictures.style import LINE
from deepcanon.pictures.texts import SURPRISE, WIDTH, Passage, text_picture, text_probabilities


def written(passage: Passage) -> list[str]:
    return ["".join(letter for letter, _ in line) for line in passage.lines()]


def test_lines_end_where_the_text_ends_them_and_never_beyond_the_width() -> None:
    tokens = [*"one\n\ntwo\n", "x" * (WIDTH + 3)]
    shares = [0.5] * len(tokens)
    assert written(Passage([(tokens, shares)], broken=True)) == ["one↵↵", "two↵", "x" * WIDTH, "xxx"]
    assert written(Passage([("ab\n", [1.0] * 3), ("c", [0.1])])) == ["ab↵", "c"]
    assert written(Passage([("a\tb", [1.0] * 3)])) == ["a·b"]


def test_each_letter_stands_on_the_color_of_its_token() -> None:
    figure = text_probabilities({"one": Passage([(["ab", "c"], [0.25, math.nan])])}, "title")
    axes = figure.axes[0]
    (cells,) = [part for part in axes.collections if isinstance(part, PatchCollection)]
    wanted = [SURPRISE(0.25), SURPRISE(0.25), to_rgba(LINE)]
    np.testing.assert_allclose(np.asarray(cells.get_facecolor()), np.asarray(wanted))
    assert [(text.get_text(), text.get_position()[0]) for text in axes.texts] == [("a", 0.5), ("b", 1.5), ("c", 2.5)]


class Coin:
    """Whatever came before, token 1 has the odds of three to one."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.tensor([0.0, math.log(3)]).expand(*x.shape, 2)

    def generate(
        self, prompt: Tensor, steps: int, *, context: Context | None = None, temperature: float = 1.0,
        top_k: int | None = None, top_p: float | None = None, stop: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        return torch.cat([prompt, torch.ones(len(prompt), steps, dtype=torch.long)], 1)


@pytest.mark.parametrize(("vocabulary", "spaced"), [(("a", "b "), False), (("a", "b"), True)])
def test_the_picture_shows_what_the_model_predicts(
    vocabulary: tuple[str, ...], spaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str, Passage] = {}
    monkeypatch.setattr(texts, "text_probabilities", lambda passages, title: shown.update(passages))
    x = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0]])
    text_picture(Coin(), Coin(), x, torch.tensor([4, 2]), vocabulary, "title", "test", Generator())
    held_out, drawn = shown.items()
    nats = -(2 * math.log(0.75) + 2 * math.log(0.25)) / 4
    assert held_out[0] == f"test sequences: {nats:.2f} nats per token"
    (first, shares), (second, few) = held_out[1].rows
    assert math.isnan(shares[0])
    assert shares[1:] == pytest.approx([0.75, 0.75, 0.25])
    assert few[1:] == pytest.approx([0.25])
    assert len(second) == 2
    assert (first[0] == "a ") == spaced
    (_, made) = drawn[1].rows[0]
    assert all(map(math.isnan, made[:4]))
    assert made[4:] == pytest.approx([0.75] * texts.STEPS)
    assert drawn[0] == f"sampled from the model: {-math.log(0.75):.2f} nats per token"
