"""A scene is what its caption says: its digits are found again in the image, in the order of the caption."""

import pytest
import torch

import deepcanon as dc
from deepcanon.data.sets.scenes import CAPTIONS, DIGIT, LONGEST, NAMES, SIDE, scenes


@pytest.mark.slow
def test_the_caption_is_read_off_the_image() -> None:
    digits = dc.load_data("digits").split("test")
    batch = scenes(digits, 60, seed=5)
    for image, y, length in zip(batch.x[:, 0], batch.y.tolist(), batch.y_lengths.tolist(), strict=True):
        there = []  # where some digit of the split stands, pixel by pixel
        for top in range(SIDE - DIGIT + 1):
            for left in range(SIDE - DIGIT + 1):
                window = image[top : top + DIGIT, left : left + DIGIT]
                if window.any():
                    found = (digits.x[:, 0] == window).all((1, 2)).nonzero()
                    there += [(top, left, NAMES[digits.y[row]]) for row in found.flatten().tolist()]
        tops, lefts, names = zip(*there, strict=True)
        words = CAPTIONS.decode(y[:length]).split()
        said = [word for word in words if word in NAMES]
        across = max(lefts) - min(lefts) > max(tops) - min(tops)
        order = sorted(range(len(there)), key=lambda place: (lefts if across else tops)[place])
        assert [names[place] for place in order] == said
        relation = {True: "left of", False: "above"}[across]
        articles = ["an" if name == "eight" else "a" for name in said]
        spoken = f" {relation} ".join(f"{article} {name}" for article, name in zip(articles, said, strict=True))
        assert " ".join(words) == spoken
        assert float(image.sum()) == sum(
            float(image[top : top + DIGIT, left : left + DIGIT].sum()) for top, left, _ in there
        )


@pytest.mark.slow
def test_the_splits_hold_other_digits_and_the_same_scenes_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepcanon.data.sets.scenes.scenes", scenes)  # which other tests have made once
    data, again = dc.load_data("scenes"), dc.load_data("scenes")
    assert [len(data.split(part)) for part in ("train", "valid", "test")] == [20000, 1000, 1000]
    assert data.fingerprint() == again.fingerprint()
    assert data.kind == "captions"
    assert tuple(data.train.x.shape[1:]) == data.shape == (1, SIDE, SIDE)
    assert data.target_vocabulary == CAPTIONS.vocabulary
    assert data.train.y.shape[1] == LONGEST == int(data.train.y_lengths.max())
    sizes = data.sizes
    assert sizes["target_vocab"] == len(CAPTIONS.vocabulary) == 1 + int(data.train.y.max())
    assert bool((data.train.y[:, 0] == sizes["begin_token"]).all())
    ends = data.train.y.gather(1, data.train.y_lengths.unsqueeze(1) - 1)
    assert bool((ends == sizes["end_token"]).all())
    words = {CAPTIONS.decode(row) for row in data.split("test").y.tolist()}
    assert len(words) > 500
    assert not torch.equal(data.train.x[:1000], data.split("test").x)
