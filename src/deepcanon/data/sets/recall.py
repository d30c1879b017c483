"""Delayed recall: name the first token of a sequence at its end, after many others that mean nothing."""

from __future__ import annotations

import numpy as np
import torch

from deepcanon.core import LabeledSequences
from deepcanon.core.checks import at_least
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

LENGTH = 50
CAPITALS = tuple("ABCDEFGH")
FILLERS = tuple("abcdefgh")
QUESTION = "?"
VOCABULARY = (*CAPITALS, *FILLERS, QUESTION)


def recalls(count: int, length: int, seed: int) -> LabeledSequences:
    """Sequences of a capital letter, fillers that are drawn at random, and a question mark; the label is the capital.

    To guess is right one time in eight; to do better, a network must remember over ``length - 1`` steps.

    >>> batch = recalls(2, length=6, seed=0)
    >>> ["".join(VOCABULARY[token] for token in row) for row in batch.x], [CAPITALS[label] for label in batch.y]
    (['Efadd?', 'Hdhbd?'], ['E', 'H'])
    """
    at_least(2, length=length)
    random = fixed_random(seed)
    first = random.randint(len(CAPITALS), size=(count, 1))
    fillers = len(CAPITALS) + random.randint(len(FILLERS), size=(count, length - 2))
    last = np.full((count, 1), VOCABULARY.index(QUESTION))
    x = torch.from_numpy(np.concatenate([first, fillers, last], 1))
    return LabeledSequences(x, torch.from_numpy(first[:, 0]), torch.full((count,), length))


def load(entry: Entry) -> Dataset[LabeledSequences]:
    """The splits, each with a seed of its own: 0 for training, 1 for validation, 2 for test."""
    return entry.drawn(recalls, LENGTH)


RECALL = Entry(
    name="recall",
    kind="sequences",
    shape=(LENGTH,),
    sizes={"vocab": len(VOCABULARY), "classes": len(CAPITALS), "length": LENGTH},
    counts=(10000, 1000, 2000),
    source="drawn here: the first token of a sequence is asked for at its end",
    load=load,
    labels=CAPITALS,
    vocabulary=VOCABULARY,
)
