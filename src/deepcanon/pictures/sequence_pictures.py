"""Pictures of a run on texts, sequences and series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import Captioned, LabeledSequences, SentencePairs, SequencePairs, Sequences, Series, given_batch
from deepcanon.core.plural import counted
from deepcanon.core.roles import (
    Aligns,
    Attends,
    CrossAttends,
    Forecasts,
    Generates,
    HasNeighbors,
    HasTree,
    Samples,
    Translates,
)
from deepcanon.pictures.attention import alignment_picture, attention_heads
from deepcanon.pictures.captions import captioned_images
from deepcanon.pictures.class_tree import tree_picture
from deepcanon.pictures.forecasts import forecast_picture
from deepcanon.pictures.scene import Scene
from deepcanon.pictures.texts import HELD_OUT, text_picture
from deepcanon.pictures.translations import translation_picture
from deepcanon.pictures.waveforms import WAVES, waveform_picture
from deepcanon.pictures.word_vectors import word_pictures

ATTENDED = 28
ALL = 128
TENTH = 10
"""Of positions without tokens up to so many are shown, of which every tenth is numbered."""
LONGEST = 40
"""Of a source and its target more tokens than these are too small to be read."""
FORECASTS = 6
ALIGNED = 6
TRANSLATED = 200
CAPTIONED = 18


def neighbored(scene: Scene) -> dict[str, Figure]:
    """The nearest words of some words, and a map of word vectors."""
    model = scene.model
    if not isinstance(model, HasNeighbors):
        return {}
    return word_pictures(model, model.vocabulary, f"{model.name()} on {scene.data.name}", scene.seed)


def branched(scene: Scene) -> dict[str, Figure]:
    """The tree of a hierarchical softmax, of the model or of its output layer."""
    model = scene.model
    tree = model if isinstance(model, HasTree) else getattr(model, "output_layer", None)
    names = scene.data.target_vocabulary or scene.data.vocabulary
    if not isinstance(tree, HasTree) or len(tree.nodes) != len(names) or not names:
        return {}
    title = f"{model.name()} on {scene.data.name}: the first decisions between {counted(len(names), 'token', ',')}"
    return {"tree": tree_picture(tree.nodes, tree.sides, tree.counts, names, title)}


def written(scene: Scene) -> dict[str, Figure]:
    """Generated text, and how likely the model finds a held-out one."""
    model = scene.model
    if not isinstance(model, Generates) or not isinstance(scene.batch, Sequences) or not scene.data.vocabulary:
        return {}
    some: Any = scene.some(HELD_OUT)
    title = f"{model.name()} on {scene.data.name}"
    return {
        "text": text_picture(
            model, model, some.x, some.lengths, scene.data.vocabulary, title, scene.split, scene.generator()
        )
    }


def sounded(scene: Scene) -> dict[str, Figure]:
    """Waves, and those that the model makes of their beginnings."""
    model, heights = scene.model, scene.data.preprocessing.get("amplitudes")
    if not isinstance(model, Generates) or not isinstance(scene.batch, Sequences) or not heights:
        return {}
    title = f"{model.name()} on {scene.data.name}"
    x = scene.some(WAVES).x
    return {"waveforms": waveform_picture(model, x, heights, title, scene.split, scene.generator())}


def forecasted(scene: Scene) -> dict[str, Figure]:
    """Fans of forecasts."""
    model, batch = scene.model, scene.some(FORECASTS)
    if not isinstance(model, Forecasts) or not isinstance(batch, Series) or not batch.weight:
        return {}
    title = f"{model.name()} on {scene.data.name}: forecasts on {scene.split}"
    return {"forecasts": forecast_picture(model, batch, title, scene.generator())}


def attended(scene: Scene) -> dict[str, Figure]:
    """The attention of each head in one sequence, or from one target to its source."""
    model, vocabulary = scene.model, scene.model.vocabulary
    first: Any = scene.batch.select(torch.zeros(1, dtype=torch.long, device=scene.batch.device))
    if isinstance(model, CrossAttends) and isinstance(first, SequencePairs) and scene.data.target_vocabulary:
        return {"attention": _crossing(scene, model, first)}
    if not isinstance(model, Attends) or not (vocabulary or isinstance(first, LabeledSequences)):
        return {}
    maps, names = attention_in(model, first)
    title = f"{model.name()} on {scene.data.name}: attention of each head in a sequence of {scene.split}"
    return {"attention": attention_heads(maps, names, title=title)}


def attention_in(model: Any, one: Any) -> tuple[Tensor, list[str]]:
    """The attention of each head in one sequence or image, (layers, heads, T, T), and a name of each position."""
    vocabulary = model.vocabulary
    if one.x.ndim == 4:
        maps = model.attention_maps(one.x)[:, 0]
        return maps, _patches(maps.shape[-1])
    if isinstance(one, SentencePairs):  # without the padding
        x, *others = (one.x[:, : one.lengths], None, one.segments[:, : one.lengths])
    else:
        most = ATTENDED if one.x.ndim == 2 else ALL
        x, *others = (one.x[:, : min(most, int(getattr(one, "lengths", most)))],)
    maps = model.attention_maps(x, *others)[:, 0]
    tokens = x.ndim == 2 and bool(vocabulary)
    numbers = [str(i) if i % TENTH == 0 else "" for i in range(1, x.shape[1] + 1)]
    names = [vocabulary[code] for code in x[0].tolist()] if tokens else numbers
    return maps, ["<class>"] * (maps.shape[-1] - len(names)) + names  # which a classifier may put before them


def _patches(count: int) -> list[str]:
    """The names of the patches of an image, by row and column, after the class token, if there is one."""
    side = math.isqrt(count)
    places = [f"{i // side + 1}, {i % side + 1}" for i in range(side * side)]
    return ["<class>"] * (count - side * side) + places


def _crossing(scene: Scene, model: CrossAttends, pair: SequencePairs) -> Figure:
    """The attention of each head from the translation of one source to the source."""
    translate: Any = model.translate  # of sequences, which have lengths
    x = pair.x[:, : int(pair.lengths)][:, :LONGEST]
    y, end = translate(x)
    y = y[:, : min(int(end), LONGEST)]
    maps = model.cross_attention_maps(x, y)[:, 0]
    sources = [scene.data.vocabulary[code] for code in x[0].tolist()]
    targets = [scene.data.target_vocabulary[code] for code in y[0, 1:].tolist()]
    title = f"{scene.model.name()} on {scene.data.name}: attention of each head from a translation to its source"
    return attention_heads(maps, sources, targets, title=title)


def aligned(scene: Scene) -> dict[str, Figure]:
    """Translations, aligned with their sources."""
    model, data, some = scene.model, scene.data, scene.some(ALIGNED)
    if not isinstance(model, Aligns) or not isinstance(some, SequencePairs) or not data.target_vocabulary:
        return {}
    title = f"{model.name()} on {data.name}: translations of {scene.split}, aligned with their sources"
    return {"alignment": alignment_picture(model, some, data.vocabulary, data.target_vocabulary, title)}


def translated(scene: Scene) -> dict[str, Figure]:
    """Translations next to their sources, shaded by the probability of their tokens."""
    model, data, some = scene.model, scene.data, scene.some(TRANSLATED)
    if not isinstance(model, Translates) or not isinstance(some, SequencePairs) or not data.target_vocabulary:
        return {}
    title = f"{model.name()} on {data.name}: translations of {scene.split}"
    return {"translations": translation_picture(model, some, data.vocabulary, data.target_vocabulary, title)}


def captioned(scene: Scene) -> dict[str, Figure]:
    """Images with the captions that the model writes."""
    model, data, some = scene.model, scene.data, scene.some(CAPTIONED)
    if not isinstance(model, Translates) or not isinstance(some, Captioned) or not data.target_vocabulary:
        return {}
    written, true = (
        _texts(*tokens, data.target_vocabulary) for tokens in (model.translate(some.x), (some.y, some.y_lengths))
    )
    title = f"{model.name()} on {data.name}: captions of {scene.split} images"
    return {
        "captions": captioned_images(some.x, data.shape, written, true, limits=scene.limits, title=title),
    }


def illustrated(scene: Scene) -> dict[str, Figure]:
    """Captions with the images that the model makes from them."""
    model, data, some = scene.model, scene.data, scene.some(CAPTIONED)
    if not isinstance(model, Samples) or not isinstance(some, Captioned) or not data.target_vocabulary:
        return {}
    images = given_batch(model, some).sample(len(some), generator=scene.generator())
    captions = _texts(some.y, some.y_lengths, data.target_vocabulary)
    title = f"{model.name()} on {data.name}: images made from captions of {scene.split}"
    return {"from_captions": captioned_images(images, data.shape, captions, limits=scene.limits, title=title)}


def _texts(tokens: Tensor, lengths: Tensor, vocabulary: Sequence[str]) -> list[str]:
    pairs = zip(tokens.tolist(), lengths.tolist(), strict=True)
    return [_words(row[1 : end - 1], vocabulary) for row, end in pairs]


def _words(tokens: Sequence[int], vocabulary: Sequence[str]) -> str:
    """The text of tokens between begin and end; words come without what is between them."""
    shown = [vocabulary[token] for token in tokens]
    return ("" if max(map(len, shown), default=0) == 1 else " ").join(shown)
