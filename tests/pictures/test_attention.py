"""Every head has its map, with the tokens beside it."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from deepcanon.core import Batch, LabeledSequences, SequencePairs
from deepcanon.core.toy import Toy
from deepcanon.data import Dataset
from deepcanon.models.attention.transformer import Transformer
from deepcanon.models.attention.transformer_classifier import TransformerClassifier
from deepcanon.models.recurrent.seq2seq_attention import Seq2SeqAttention
from deepcanon.pictures import draw_run
from deepcanon.pictures.attention import alignment_picture, alignments, attention_heads
from deepcanon.pictures.style import save


@pytest.mark.slow
def test_each_head_has_a_map_of_its_own_weights(tmp_path: Path) -> None:
    maps = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)).softmax(-1)
    figure = attention_heads(maps, ["a", " ", "\n", "b"], title="Attention")
    axes = [each for each in figure.axes if each.images]
    assert [each.get_title(loc="left") for each in axes] == [f"layer {i}, head {j}" for i in (1, 2) for j in (1, 2, 3)]
    for each, wanted in zip(axes, maps.flatten(0, 1), strict=True):
        shown = torch.as_tensor(each.images[0].get_array())
        assert torch.allclose(shown, wanted)
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["a", "·", "↵", "b"]
    assert [label.get_text() for label in axes[-1].get_xticklabels()] == ["a", "·", "↵", "b"]
    assert save(figure, tmp_path / "attention.png").stat().st_size > 0


def test_of_a_deep_model_the_first_and_the_last_layers_are_shown() -> None:
    figure = attention_heads(torch.eye(3).expand(9, 8, 3, 3), "abc")
    titles = [each.get_title(loc="left") for each in figure.axes if each.images]
    assert len(titles) == 36
    assert {title.partition(",")[0] for title in titles} == {f"layer {i}" for i in (1, 2, 3, 7, 8, 9)}


def test_a_run_of_a_model_that_attends_has_the_picture(tmp_path: Path) -> None:
    class Looks(Toy):
        def attention_maps(self, x: Tensor) -> Tensor:
            return torch.ones(1, len(x), 2, x.shape[1], x.shape[1]).tril()

    model, batch = Looks(features=5), Batch(torch.zeros(3, 5, dtype=torch.long))
    data: Dataset[Batch] = Dataset(name="letters", kind="text", train=batch, shape=(5,))
    assert not any("attention" in path.name for path in draw_run(model, data, [], tmp_path, seed=0))
    model.vocabulary = ("a",)
    assert tmp_path / "attention.png" in draw_run(model, data, [], tmp_path, seed=0)


def test_each_pair_has_its_alignment(tmp_path: Path) -> None:
    maps = [torch.rand(2, 3).softmax(1), torch.rand(3, 4).softmax(1), torch.eye(2)]
    figure = alignments(maps, [("a b", "xy"), ("a bc", "xyz"), ("ab", "xy")], "Alignment")
    axes = [each for each in figure.axes if each.images]
    for each, wanted in zip(axes, maps, strict=True):
        assert torch.allclose(torch.as_tensor(each.images[0].get_array()), wanted)
    assert [label.get_text() for label in axes[0].get_xticklabels()] == ["a", "·", "b"]
    assert [label.get_text() for label in axes[1].get_yticklabels()] == ["x", "y", "z"]
    assert save(figure, tmp_path / "alignment.png").stat().st_size > 0


def test_the_alignment_of_a_run_is_that_of_its_translations() -> None:
    model, pairs = Seq2SeqAttention.example()
    some = pairs.select(torch.arange(2))
    figure = alignment_picture(model, some, "abcd", ("<begin>", "<end>", "x", "y"))
    y, ends = model.translate(some.x, lengths=some.lengths)
    axes = [each for each in figure.axes if each.images]
    wanted = model.alignment(some.x, y, lengths=some.lengths, y_lengths=ends)
    for row, each in enumerate(axes):
        shown = torch.as_tensor(each.images[0].get_array())
        assert torch.allclose(shown, wanted[row, : ends[row] - 1, : some.lengths[row]])
        assert [label.get_text() for label in each.get_xticklabels()] == [
            "abcd"[code] for code in some.x[row, : some.lengths[row]]
        ]


def test_queries_may_be_other_tokens_than_keys() -> None:
    figure = attention_heads(torch.full((1, 2, 3, 5), 0.2), "abcde", "xyz")
    first, second = figure.axes[:2]
    assert [label.get_text() for label in first.get_xticklabels()] == list("abcde")
    assert [label.get_text() for label in first.get_yticklabels()] == list("xyz")
    assert not any(label.get_text() for label in second.get_yticklabels())
    assert torch.as_tensor(first.images[0].get_array()).shape == (3, 5)


@pytest.mark.slow
def test_a_run_of_a_transformer_shows_where_its_translation_looks(tmp_path: Path) -> None:
    model, batch = Transformer.example()
    model.vocabulary = tuple("abcde")
    data: Dataset[SequencePairs] = Dataset(
        name="letters",
        kind="pairs",
        train=batch,
        shape=(4,),
        vocabulary=tuple("abcde"),
        target_vocabulary=tuple("<>xy"),
    )
    drawn = {path.name for path in draw_run(model, data, [], tmp_path, seed=0)}
    assert {"attention.png", "alignment.png"} <= drawn


@pytest.mark.slow
def test_positions_without_tokens_are_numbered(tmp_path: Path) -> None:
    model, batch = TransformerClassifier.example()
    data: Dataset[LabeledSequences] = Dataset(name="numbers", kind="sequences", train=batch, shape=(5, 2))
    assert tmp_path / "attention.png" in draw_run(model, data, [], tmp_path, seed=0)
