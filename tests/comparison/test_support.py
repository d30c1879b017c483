"""Each model gets the form of the data that it models, and every form has the same split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.comparison.support import Forms
from deepcanon.core import UsageError


def test_images_come_as_zeros_and_ones_or_dequantized_with_the_same_split() -> None:
    forms = Forms("digits")
    plain, real, binary = (forms[form] for form in ("plain", "dequantized", "binary"))
    levels = plain.preprocessing["levels"]
    for part in ("train", "valid", "test"):
        whole = (plain.split(part).x * (levels - 1)).round()
        assert torch.equal((real.split(part).x * levels).floor(), whole)
        assert torch.equal(binary.split(part).x, (plain.split(part).x >= 0.5).float())
    assert forms["binary"] is binary


def test_a_form_that_is_asked_for_is_what_models_of_any_values_get() -> None:
    forms = Forms("digits:binary")
    assert forms["plain"].name == "digits:binary"
    assert forms["dequantized"].name == "digits:dequantized"
    assert forms["binary"].name == "digits:binary"


def test_hidden_labels_stay_hidden_in_every_form() -> None:
    forms = Forms("digits:labels=40")
    names = [forms[form].name for form in ("plain", "binary", "dequantized")]
    assert names == ["digits:labels=40", "digits:binary:labels=40", "digits:dequantized:labels=40"]
    assert [len(forms[form].train.y) for form in ("plain", "binary", "dequantized")] == [40, 40, 40]


def test_points_and_tables_stay_as_they_are_but_densities_and_probabilities_are_distinguished(tmp_path: Path) -> None:
    forms = Forms("moons")
    assert forms.suiting("real") == forms.suiting("any") == "plain"
    assert forms["plain"].name == "moons"
    assert forms.suiting("binary") == "binary"
    assert forms["binary"] is forms["plain"]


def test_data_without_a_test_split_are_split_and_it_is_said() -> None:
    forms = Forms((np.arange(40.0).reshape(20, 2), np.repeat([0, 1], 10)))
    assert [len(forms.given.split(part)) for part in ("train", "valid", "test")] == [14, 2, 4]
    assert forms.given.split("test").y.bincount().tolist() == [2, 2]
    assert forms.given.remarks == (
        "tensors has no test split: 4 of its 20 examples, chosen by a fixed seed and by class, are the test, and 2 "
        "validate.",
    )
    assert (
        forms.given.fingerprint() == Forms((np.arange(40.0).reshape(20, 2), np.repeat([0, 1], 10))).given.fingerprint()
    )
    series = Forms(dc.data.of(torch.rand(3, 20, 1), lengths=20))
    assert series.given.split("test").origins.tolist() == [18, 18, 18]
    with pytest.raises(UsageError, match="has 3 examples; at least 5"):
        Forms(np.zeros((3, 2)))


def test_images_in_memory_without_gray_levels_stay_as_they_are() -> None:
    forms = Forms((np.random.default_rng(0).random((10, 1, 4, 4)), np.arange(10) % 2))
    assert [forms.suiting(support) for support in ("real", "gray levels", "any")] == ["plain", "plain", "plain"]
    assert (forms.in_memory, forms.name) == (True, "tensors")
    loaded = Forms(dc.load_data("digits:binary"))
    assert (loaded.name, loaded["binary"].name, loaded.suiting("real")) == ("digits:binary", "digits:binary", "plain")
    assert not loaded.in_memory
    assert Forms(dc.load_data("digits"))["dequantized"].name == "digits:dequantized"


def test_models_of_gray_levels_get_images_as_whole_numbers() -> None:
    forms = Forms("digits:binary")
    assert forms.suiting("gray levels") == "levels"
    assert (forms["levels"].name, forms["levels"].sizes["levels"]) == ("digits:levels", 17)
    assert Forms("digits").with_all_sizes.sizes["levels"] == 17
    assert Forms("moons").suiting("gray levels") == "plain"
    assert "levels" not in Forms("moons").with_all_sizes.sizes


def test_densities_get_videos_dequantized() -> None:
    forms = Forms("moving-digits")
    assert forms.suiting("real") == "dequantized"
    assert forms["dequantized"].name == "moving-digits:dequantized"
    assert torch.equal(forms["dequantized"].split("test").lengths, forms["plain"].split("test").lengths)
