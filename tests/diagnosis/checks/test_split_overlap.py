from __future__ import annotations

import torch

import deepcanon as dc
from tests.diagnosis.checks.plain import CLASSES, X, causes, net


def test_rows_of_both_splits_are_seen() -> None:
    apart = dc.from_tensors(X[:400], CLASSES[:400], test=(X[400:], CLASSES[400:]))
    shared = dc.from_tensors(X[:400], CLASSES[:400], test=(X[350:], CLASSES[350:]))
    assert causes("split_overlap", net(), apart) == []
    assert causes("split_overlap", net(), shared) == ["overlapping splits"]


def test_few_patterns_that_repeat_everywhere_are_no_leak() -> None:
    x = torch.eye(10)[torch.arange(600) % 10]
    data = dc.from_tensors(x[:400], CLASSES[:400], test=(x[400:], CLASSES[400:]))
    assert causes("split_overlap", net(), data) == []


def test_rows_that_were_copied_before_the_split_are_seen() -> None:
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    x, y = X[:200].repeat(3, 1)[order], CLASSES[:200].repeat(3)[order]
    data = dc.from_tensors(x[:400], y[:400], test=(x[400:], y[400:]))
    assert causes("split_overlap", net(), data) == ["overlapping splits"]
