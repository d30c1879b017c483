"""Neighbors of examples: mostly of the same class, nearest first; models without codes are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import deepcanon as dc
from deepcanon.core import UsageError


def test_the_nearest_training_examples_are_mostly_of_the_same_class(tmp_path: Path) -> None:
    run = dc.Run.train("ppca:latent=6", "digits:dequantized", out=tmp_path / "run", quiet=True, pictures=False)
    near = run.nearest_examples(n=3)
    assert near.numbers.shape == near.distances.shape == (len(run.data.split("test")), 3)
    assert bool((near.distances.diff(dim=1) >= 0).all())
    assert near.labels is not None
    test = run.data.split("test")
    found = [near.labels[i] for i in near.numbers[:, 0].tolist()]
    same = torch.tensor([a == run.data.labels[b] for a, b in zip(found, test.y.tolist(), strict=True)])
    assert float(same.double().mean()) > 0.5
    assert "near=3" in repr(near)


def test_models_without_codes_or_words_are_refused(tmp_path: Path) -> None:
    run = dc.Run.train("softmax_regression", "digits", out=tmp_path / "run", quiet=True, steps=1, pictures=False)
    with pytest.raises(UsageError, match="has no codes of examples"):
        run.nearest_examples()
    with pytest.raises(UsageError, match="has no word vectors"):
        run.nearest("word")
