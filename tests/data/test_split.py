"""Splits are stratified to within one example, lose nothing and never change."""

import numpy as np
import pytest

from deepcanon.core import DataError
from deepcanon.data.split import cut, fixed_random, ordered_parts, stratified_order, three_counts


def test_every_stretch_keeps_the_shares_of_the_classes() -> None:
    classes = np.random.default_rng(0).choice(4, size=1000, p=[0.55, 0.3, 0.14, 0.01])
    order = stratified_order(classes, seed=1)
    assert sorted(order.tolist()) == list(range(1000))
    for rows in cut(order, (700, 100, 200)):
        for label in range(4):
            expected = len(rows) * (classes == label).mean()
            assert abs(int((classes[rows.numpy()] == label).sum()) - expected) <= 1


def test_a_class_of_one_example_trains() -> None:
    order = stratified_order(np.array([0] * 99 + [1]), seed=0)
    train, _, _ = cut(order, (70, 10, 20))
    assert 99 in train


def test_one_class_gives_a_plain_shuffle() -> None:
    assert np.array_equal(stratified_order(np.zeros(30, dtype=np.int64), seed=5), fixed_random(5).permutation(30))


def test_the_order_never_changes() -> None:
    assert stratified_order(np.array([0, 1, 0, 1, 0, 1, 0, 1]), seed=0).tolist() == [6, 1, 2, 7, 3, 0, 5, 4]


def test_parts_are_disjoint_and_rising() -> None:
    parts = [part.tolist() for part in cut(np.array([5, 3, 1, 0, 2, 4]), (3, 1, 2))]
    assert parts == [[1, 3, 5], [0], [2, 4]]


def test_too_few_examples_are_refused() -> None:
    assert three_counts(5, "it") == (3, 1, 1)
    with pytest.raises(DataError, match="it has 4 examples; at least 5 are needed"):
        three_counts(4, "it")


def test_rows_in_order_are_cut_where_the_value_changes() -> None:
    values = np.repeat(np.arange(6.0), [10, 30, 5, 5, 30, 20])[np.random.default_rng(0).permutation(100)]
    parts = ordered_parts(values, (70, 10, 20), "t", "day")
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))
    train, valid, test = (set(values[rows]) for rows in parts)
    assert max(train) < min(valid) <= max(valid) < min(test)
    assert [len(rows) for rows in parts] == [50, 30, 20]
    with pytest.raises(DataError, match="t has 2 different values of 'day'; to split by it, at least 3 are needed"):
        ordered_parts(np.array([1.0, 1, 2, 2, 2]), (3, 1, 1), "t", "day")
