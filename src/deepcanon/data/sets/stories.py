"""Stories of two sentences from a small grammar, half of them with the second sentence of another story."""

from __future__ import annotations

from deepcanon.core import SentencePairs
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random
from deepcanon.data.text.sentences import LABELS, sentence_pairs
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens
from deepcanon.data.text.words import UNKNOWN, Words

NAMES = ("anna", "ben", "clara", "david", "emma", "felix")
ANIMALS = ("cat", "cow", "dog", "duck", "fox", "horse", "mouse", "owl")
COLORS = ("black", "brown", "gray", "red", "white")
VERBS = ("draws", "feeds", "follows", "sees")
PLACES = ("forest", "garden", "park", "village")

FIRST = (
    "{name} {verb} the {color} {animal}",
    "in the {place} {name} {verb} a {color} {animal}",
    "{name} goes to the {place} and {verb} the {color} {animal}",
)
SECOND = (
    "the {animal} is {color}",
    "the {color} {animal} likes {name}",
    "{name} has never met such a {animal}",
)
"""Every second sentence names the animal, so that it can be told whether it belongs to the first."""

OTHERS = ("a", "and", "goes", "has", "in", "is", "likes", "met", "never", "such", "the", "to")
TOKENIZER = WithSpecialTokens(
    Words((UNKNOWN, *sorted({*NAMES, *ANIMALS, *COLORS, *VERBS, *PLACES, *OTHERS}))),
    SpecialTokens.first("padding", "mask", "separator", "class_"),
)
LENGTH = 20


def stories(count: int, seed: int) -> SentencePairs:
    """Random stories; in half of them, at random, the second sentence is about another animal."""
    random = fixed_random(seed)

    def choice(options: tuple[str, ...]) -> str:
        return options[random.randint(len(options))]

    texts = []
    for _ in range(count):
        facts = {"name": choice(NAMES), "verb": choice(VERBS), "color": choice(COLORS), "place": choice(PLACES)}
        first = choice(FIRST).format(**facts, animal=(animal := choice(ANIMALS)))
        label = int(random.randint(2))
        if label:
            animal = choice(tuple(other for other in ANIMALS if other != animal))
            facts = {"name": choice(NAMES), "color": choice(COLORS)}
        texts.append((first, choice(SECOND).format(**facts, animal=animal), label))
    return sentence_pairs(texts, TOKENIZER, LENGTH)


def load(entry: Entry) -> Dataset[SentencePairs]:
    """The splits, each with a seed of its own: 0 for training, 1 for validation, 2 for test."""
    train, valid, test = (stories(count, seed) for seed, count in enumerate(entry.counts))
    return entry.dataset(train, valid, test)


STORIES = Entry(
    name="stories",
    kind="sentences",
    shape=(LENGTH,),
    sizes={
        "vocab": len(TOKENIZER.vocabulary),
        "length": LENGTH,
        **{name: id for name, id in TOKENIZER.special.sizes.items() if name != "padding_token"},
    },
    counts=(8000, 1000, 1000),
    source="drawn here: two sentences about an animal, or about two",
    load=load,
    labels=LABELS,
    vocabulary=TOKENIZER.vocabulary,
    preprocessing={"tokenizer": TOKENIZER.to_json()},
)
