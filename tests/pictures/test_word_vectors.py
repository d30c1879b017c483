"""The map puts words that are used alike together, under names that can be read; the table says who is near."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.models.words.word2vec import Word2Vec
from deepcanon.pictures.word_vectors import NEIGHBORS, neighbor_table, word_map, word_pictures


def groups(each: int, latent: int = 12) -> Tensor:
    """Three groups of directions that are far from each other, one after the other."""
    centers = torch.eye(latent)[:3].repeat_interleave(each, 0)
    spread = torch.randn(3 * each, latent, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.normalize(centers + 0.03 * spread, dim=1)


def test_words_of_a_group_stand_together() -> None:
    words = [f"{group}{i}" for group in "abc" for i in range(8)]
    (axes,) = word_map(groups(8), words, "a title").axes
    assert axes.get_title(loc="left") == "a title"
    places = {text.get_text(): text.get_position() for text in axes.texts}
    dots = [offset for dot in axes.collections for offset in np.asarray(dot.get_offsets()).tolist()]
    assert len(places) + len(dots) == 24
    assert len(places) > 6
    for word, place in places.items():
        others = {name: np.hypot(*np.subtract(place, other)) for name, other in places.items() if name != word}
        assert min(others, key=lambda name: others[name])[0] == word[0]


@pytest.mark.slow
def test_names_do_not_lie_over_each_other() -> None:
    figure = word_map(groups(30), [f"quite a long name {i}" for i in range(90)])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 0 < len(boxes) < 90
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_the_table_has_words_and_cosines() -> None:
    (axes,) = neighbor_table([("true", [("false", 0.912), ("a" * 20, 0.5)]), ("day", [("week", 0.25)])], "").axes
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["true", "false", "0.91", "a" * 13 + "…", "0.50", "day", "week", "0.25"]


def test_frequent_words_of_some_letters_are_shown() -> None:
    words = ("<unk>", "the", "a", "true", "false", "l'amour", "file", "files", "of", "return")
    torch.manual_seed(0)
    model = Word2Vec(len(words), 6)
    model.vocabulary = words
    drawn = word_pictures(model, words, "word2vec", seed=0)
    assert {text.get_text() for text in drawn["word_map"].axes[0].texts} <= {"true", "false", "file", "files", "return"}
    table = [text.get_text() for text in drawn["neighbors"].axes[0].texts]
    assert table[0] == "true"
    assert table[1 : 2 * NEIGHBORS : 2] == [word for word, _ in model.nearest("true", NEIGHBORS)]


def test_without_words_there_is_nothing_to_show() -> None:
    assert word_pictures(Word2Vec(50), (), "word2vec", seed=0) == {}
    with pytest.raises(UsageError, match="at least 4"):
        word_map(torch.eye(3), ["a", "b", "c"])
    with pytest.raises(UsageError, match="at least one word"):
        neighbor_table([])
