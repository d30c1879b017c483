"""The study of pretraining: topics are those of the stories, labels are few and balanced, nets of a pair alike."""

from __future__ import annotations

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.data.sets.stories import TOPICS
from deepcanon.methods.transfer import Transfer
from deepcanon.models.attention.bert import BERT
from deepcanon.studies import pretraining as study
from deepcanon.studies.pretraining import pretraining


def test_the_label_is_the_topic_that_the_story_begins_with() -> None:
    stories = load_data("stories")
    told = study._by_topic(stories, "test")
    for row, segments, topic in zip(told.x.tolist()[:200], told.segments.tolist(), told.y.tolist(), strict=False):
        first = {stories.vocabulary[token] for token, part in zip(row, segments, strict=True) if part == 0}
        words = {word for kind in TOPICS[topic].values() for word in kind}
        assert first & words
        others = {
            word for number, kinds in enumerate(TOPICS) if number != topic for kind in kinds.values() for word in kind
        }
        assert not first & others


@pytest.mark.slow
def test_a_net_without_pretraining_gains_nothing() -> None:
    """With no step of pretraining that counts, both nets of a pair begin alike and end alike."""
    before = torch.get_rng_state()
    finding = pretraining(BERT, Transfer, labels=(8,), steps=1, tuning=2, seeds=1)
    assert torch.equal(before, torch.get_rng_state())
    known, fresh = (finding.numbers["accuracy"][name][0][0] for name in ("pretrained", "from scratch"))
    assert abs(known - fresh) < 0.2
    assert "do not tell whether pretraining helps" in finding.says[0]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="labels are numbers of stories, each 4 or more"):
        pretraining(BERT, Transfer, labels=(2,))
