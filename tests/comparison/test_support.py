"""Each model gets the form of the data that it models, and every form has the same split."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from deepcanon.comparison import support
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


def test_data_without_a_test_split_cannot_be_compared_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepcanon.data import from_tensors

    monkeypatch.setattr(support, "load_data", lambda name: from_tensors(torch.zeros(5, 2)))
    with pytest.raises(UsageError, match="has no 'test' split"):
        Forms("x")


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
