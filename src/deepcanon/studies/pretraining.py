"""Pretraining: what a BERT that has read many stories learns from few labels, and the same net from scratch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure

from deepcanon.core import Model, SentencePairs, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.core.spec import with_sizes
from deepcanon.data import Dataset, load_data
from deepcanon.data.sets.stories import TOPICS
from deepcanon.pictures.style import PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import draw_band, interval
from deepcanon.train import evaluate, fit
from deepcanon.train.randomness import kept, seed_from, seed_torch

SIZE, RATE = 16, 1e-3
"""The rows of a batch of labeled stories, and the learning rate of both nets on them."""
SMALL = {"layers": 2, "embedding": 32}
"""The sizes of the nets."""


def pretraining(
    bert: type[Model[Any]],
    transfer: type[Model[Any]],
    *,
    labels: tuple[int, ...] = (8, 16, 32),
    steps: int = 1000,
    tuning: int = 100,
    seeds: int = 6,
    seed: int = 0,
) -> Finding:
    r"""Pretraining on text without labels: the accuracy after fine-tuning with few labels, and from scratch.

    .. math:: \Delta = \mathrm{accuracy}(\text{fine-tuned from } \theta_{\text{pretrained}}) -
              \mathrm{accuracy}(\text{trained from } \theta_{\text{random}})

    A small BERT is pretrained on the stories: it fills in masked words and tells whether the second sentence follows.
    Then it is fine-tuned, all weights and a new head, to tell which of four topics a story begins with, from a few
    labeled stories. The same net with random weights learns from the same stories in as many steps, of the same
    batches, at the same rate. Nets of one seed are a pair: they have the same labels, drawn with the seed.

    References:
        | BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2019),
          https://arxiv.org/abs/1810.04805

    Arguments:
        bert: The net.
        transfer: The method that gives it a new head.
        labels: The numbers of labeled stories.
        steps: The steps of pretraining.
        tuning: The steps of fine-tuning.
        seeds: The number of nets of each kind.
        seed: The seed of all draws.
    """
    if not labels or min(labels) < len(TOPICS) or seeds < 1:
        raise UsageError(f"labels are numbers of stories, each {len(TOPICS)} or more, and seeds 1 or more")
    stories = load_data("stories")
    told = replace(stories, train=_by_topic(stories, "train"), test=_by_topic(stories, "test"), valid=None)
    rows: dict[str, list[list[float]]] = {"pretrained": [], "from scratch": []}
    for number in range(seeds):
        own = seed_from(seed, number)
        with kept():
            seed_torch(own)
            scratch = bert(**with_sizes(bert, stories.sizes, SMALL, stories.name))
        learned = copy.deepcopy(scratch)
        fit(learned, stories, steps=steps, seed=own, quiet=True)
        for name, net in (("pretrained", learned), ("from scratch", scratch)):
            rows[name].append([_tuned(transfer, net, told, few, tuning, own) for few in labels])
    settings = (
        f"stories; BERT of {counted(SMALL['layers'], 'layer')} of {SMALL['embedding']}; "
        f"{counted(steps, 'step')} of pretraining; "
        f"{counted(tuning, 'step')} of {SIZE} on {labels[0]} to {labels[-1]} labels at a rate of {RATE:g}; "
        f"{counted(seeds, 'paired seed')}; test accuracy, bands from the lowest to the highest"
    )
    return concluded({"settings": settings, "labels": list(labels), "accuracy": rows}, sentences, draw)


def _by_topic(stories: Dataset[SentencePairs], name: str) -> SentencePairs:
    """A split with the topic of the first sentence as the label."""
    batch, words = stories.split(name), stories.vocabulary
    topic = torch.full((len(words),), -1)
    for number, kinds in enumerate(TOPICS):
        for word in (word for kind in kinds.values() for word in kind):
            topic[words.index(word)] = number
    first = batch.x.masked_fill(batch.segments == 1, 0)
    return replace(batch, y=topic[first].amax(1))


def _tuned(
    transfer: type[Model[Any]], net: Model[Any], told: Dataset[SentencePairs], few: int, steps: int, seed: int
) -> float:
    """The test accuracy of a net that is fine-tuned on a few labeled stories, as many of each topic."""
    y = told.train.y
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    each = [order[y[order] == topic][: -(-few // len(TOPICS))] for topic in range(len(TOPICS))]
    chosen = torch.stack(each, 1).flatten()[:few]
    with kept():
        seed_torch(seed)
        tuned: Any = transfer(model=copy.deepcopy(net), classes=len(TOPICS), backbone="fine-tuned")
    data = replace(told, train=told.train.part(chosen), test=None)
    fit(
        tuned, data, steps=steps, lr=RATE, schedule="constant", batch_size=min(SIZE, few), keep_weights="last",
        seed=seed, quiet=True,
    )  # fmt: skip
    return float(evaluate(tuned, told.split("test"))["accuracy"])


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """How much more accurate pretrained nets are, as far as so many pairs can tell."""
    labels, known, fresh = numbers["labels"], *(numbers["accuracy"][name] for name in ("pretrained", "from scratch"))
    told = [
        f"from {few} labels {fmean(row[i] for row in known):.1%} against {fmean(row[i] for row in fresh):.1%}"
        for i, few in enumerate(labels)
    ]
    return (_headline(labels[0], known, fresh), f"Pretrained and from scratch: {', '.join(told)}.")


def _headline(few: int, known: list[list[float]], fresh: list[list[float]]) -> str:
    gain, width = interval([a[0] - b[0] for a, b in zip(known, fresh, strict=True)])
    points = f"{100 * abs(gain):.1f} ± {100 * width:.1f} points"
    more = "more" if gain > 0 else "less"
    if abs(gain) <= width:
        return f"With {few} labels these seeds do not tell whether pretraining helps: {points} {more} accurate."
    return f"With {few} labels a pretrained net is {points} {more} accurate than one from scratch."


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The accuracy by the number of labels."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    for color, (name, rows) in zip(PALETTE, numbers["accuracy"].items(), strict=False):
        draw_band(axes, numbers["labels"], rows, color, name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers["labels"], [str(few) for few in numbers["labels"]])
    axes.minorticks_off()
    dress(axes, "Topics of stories", "labeled stories", "test accuracy")
    legend(axes)
    return figure
