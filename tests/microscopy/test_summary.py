"""Tensors in few words, and the table for the terminal."""

from __future__ import annotations

import base64

import numpy as np
import torch
from torch import nn

from deepcanon.microscopy.microscope import microscope
from deepcanon.microscopy.summary import picture, short, summary, table


def test_a_large_tensor_is_summarized_and_a_small_one_shown_whole() -> None:
    large = summary(np.arange(10_000.0).reshape(100, 100), 8)
    assert large["first"] == list(range(8))
    assert (large["min"], large["mean"], large["max"]) == (0.0, 4999.5, 9999.0)
    assert len(base64.b64decode(large["picture"]["cells"])) == 12 * 24
    assert summary(np.zeros((0, 3)), 8) == {"shape": [0, 3], "dtype": "float64", "size": 0}
    assert summary(np.array([np.nan, 1.0]), 8)["first"] == ["nan", 1.0]


def test_the_small_picture_averages_neighbors() -> None:
    told = picture(np.repeat(np.array([[1.0], [-1.0]]), 30, axis=0))
    cells = np.frombuffer(base64.b64decode(told["cells"]), dtype=np.int8)
    assert (told["rows"], told["columns"]) == (12, 1)
    np.testing.assert_array_equal(cells, [127] * 6 + [-127] * 6)


def test_few_words() -> None:
    assert short(np.array([[True, False, True]])) == "~0.816"
    assert short(None) == ""


def test_the_table_has_a_row_per_edge_and_says_what_holds() -> None:
    graph = microscope(nn.Linear(2, 1), torch.ones(1, 2))
    assert [row[:4] for row in table(graph)] == [
        ("0", "x", "linear", "1x2"), ("1", "weight", "linear", "1x2"), ("2", "bias", "linear", "1"),
        ("3", "linear", "sum", "1x1"),
    ]  # fmt: skip
    text = str(graph)
    assert text.count("agrees") == 4
    assert text.count("holds") == 3
    assert len(table(graph, most=2)) == 2
