"""Translations are drawn with their sources, the truth where they are wrong, and the least probable ones again."""

import torch
from torch import Tensor

from deepcanon.core import SequencePairs
from deepcanon.pictures.translations import translation_picture


class Copies:
    """Writes the first letter of a source only; of the second source it is not certain."""

    def translate(self, x: Tensor, *, lengths: Tensor) -> tuple[Tensor, Tensor]:
        begin, end = torch.zeros(len(x), 1, dtype=torch.long), torch.ones(len(x), 1, dtype=torch.long)
        return torch.cat([begin, x[:, :1] + 2, end], 1), torch.full((len(x),), 3)

    def step_log_probs(self, y: Tensor, *, lengths: Tensor, context: tuple[Tensor, Tensor]) -> Tensor:
        steps = torch.zeros(y.shape)
        steps[1, 1] = -0.7
        return steps


def test_sources_translations_and_the_truth_stand_in_a_line() -> None:
    x, y = torch.tensor([[0, 1], [1, 1]]), torch.tensor([[0, 2, 1, 0], [0, 3, 3, 1]])
    pairs = SequencePairs(x, torch.tensor([1, 2]), y, torch.tensor([3, 4]))
    figure = translation_picture(Copies(), pairs, ["a", "b"], ["<begin>", "<end>", "A", "B"], "title")
    first, least = (
        ["".join(text.get_text() for text in axes.texts if int(text.get_position()[1]) == row) for row in range(2)]
        for axes in figure.axes[:2]
    )
    assert first == ["a→A", "bb→B≠BB"]
    assert least == ["bb→B≠BB", "a→A"]
    headings = [text.get_text() for text in figure.texts]
    assert "1 of 2 translations are exact (else ≠ the true one); the first of them" in headings
    assert "probability given the tokens before it; gray: source" in headings
