"""Stories: half of the second sentences are on the topic of the first, as every word of a topic tells."""

import torch

from deepcanon.data import load_data
from deepcanon.data.sets.stories import TOPICS, stories


def test_the_topic_tells_which_sentences_belong_together() -> None:
    data = load_data("stories")
    topic = {word: number for number, kinds in enumerate(TOPICS) for words in kinds.values() for word in words}
    words, special = data.vocabulary, data.sizes
    for split in ("train", "valid", "test"):
        batch = data.split(split)
        assert abs(batch.y.double().mean().item() - 0.5) < 0.05
        for row in range(200):
            tokens, segments = batch.x[row, : batch.lengths[row]], batch.segments[row, : batch.lengths[row]]
            names = [[words[code] for code in tokens[segments == part].tolist()] for part in (0, 1)]
            (first,), (second,) = ({topic[word] for word in each if word in topic} for each in names)
            assert (first != second) == bool(batch.y[row])
            assert tokens[0] == special["class_token"]
            assert (tokens == special["separator_token"]).sum() == 2
            assert tokens[-1] == special["separator_token"]
            assert "<unk>" not in names[0] + names[1]
            assert special["mask_token"] not in tokens
    assert data.labels == ("next", "other")
    assert int(data.train.lengths.max()) == data.sizes["length"]
    assert int(data.train.x.max()) < data.sizes["vocab"]


def test_they_are_the_same_every_time_and_differ_between_splits() -> None:
    once, again = stories(50, seed=3), stories(50, seed=3)
    assert torch.equal(once.x, again.x)
    assert not torch.equal(once.x, stories(50, seed=4).x)
