"""Stories of two sentences from a small grammar, half of them with a second sentence on another topic."""

from __future__ import annotations

from deepcanon.core import SentencePairs
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random
from deepcanon.data.text.sentence_rows import LABELS, sentence_pairs
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens
from deepcanon.data.text.words import UNKNOWN, Words

TOPICS = (
    {"person": ("baker", "cook"), "action": ("bakes", "tastes"), "thing": ("bread", "cake", "soup"),
     "place": ("kitchen", "bakery")},
    {"person": ("farmer", "shepherd"), "action": ("counts", "feeds"), "thing": ("cow", "hen", "sheep"),
     "place": ("barn", "meadow")},
    {"person": ("captain", "sailor"), "action": ("repairs", "steers"), "thing": ("boat", "raft", "ship"),
     "place": ("harbor", "bay")},
    {"person": ("pupil", "teacher"), "action": ("reads", "writes"), "thing": ("book", "letter", "poem"),
     "place": ("library", "school")},
)  # fmt: skip
"""The words of each topic, which belong to no other."""

FIRST = (
    "the {person} {action} the {thing}",
    "in the {place} the {person} {action} a {thing}",
    "every morning the {person} goes to the {place} and {action} the {thing}",
)
SECOND = (
    "now the {thing} is in the {place}",
    "a {person} comes from the {place}",
    "then the {person} {action} a {thing} as well",
)

OTHERS = ("a", "and", "as", "comes", "every", "from", "goes", "in", "is", "morning", "now", "the", "then", "to", "well")
CONTENT = tuple(word for topic in TOPICS for words in topic.values() for word in words)
TOKENIZER = WithSpecialTokens(
    Words((UNKNOWN, *sorted({*CONTENT, *OTHERS}))), SpecialTokens.first("padding", "mask", "separator", "class_")
)
LENGTH = 23


def stories(count: int, seed: int) -> SentencePairs:
    """Random stories; in half of them, at random, the second sentence is on another topic."""
    random = fixed_random(seed)

    def sentence(forms: tuple[str, ...], topic: int) -> str:
        words = {kind: options[random.randint(len(options))] for kind, options in TOPICS[topic].items()}
        return forms[random.randint(len(forms))].format(**words)

    texts = []
    for _ in range(count):
        topic, label = random.randint(len(TOPICS)), int(random.randint(2))
        other = (topic + random.randint(1, len(TOPICS))) % len(TOPICS)
        texts.append((sentence(FIRST, topic), sentence(SECOND, other if label else topic), label))
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
    source="drawn here: two sentences on one topic, or on two",
    load=load,
    labels=LABELS,
    vocabulary=TOKENIZER.vocabulary,
    preprocessing={"tokenizer": TOKENIZER.to_json()},
)
