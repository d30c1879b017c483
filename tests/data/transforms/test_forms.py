"""Binary images hold zeros and ones; dequantized ones have the gray levels below uniform noise."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import kstest
from torch import Tensor

from deepcanon.core import Batch, UsageError
from deepcanon.data import Dataset, load_data
from deepcanon.data.transforms.forms import binary, black_and_white, dequantized, dequantized_anew, in_form

PARTS = ("train", "valid", "test")


def every_gray(levels: int, times: int = 40) -> Tensor:
    """Images with all gray levels."""
    return (torch.arange(levels) / (levels - 1)).repeat(times, 1)[:, None, None, :]


def test_binary_is_the_threshold_at_one_half() -> None:
    plain, form = load_data("digits"), load_data("digits:binary")
    for part in PARTS:
        gray = (plain.split(part).x * 16).round()
        assert torch.equal(form.split(part).x, (gray >= 8).float())
        assert torch.equal(form.split(part).y, plain.split(part).y)
    assert form.name == "digits:binary"
    assert dict(form.preprocessing) == {"levels": 17, "form": "binary"}


def test_dequantized_digits_give_their_gray_levels_back() -> None:
    plain, form = load_data("digits"), load_data("digits:dequantized")
    for part in PARTS:
        x = form.split(part).x
        assert torch.equal((x * 17).floor(), plain.split(part).x * 16)
        assert 0 <= x.min() < x.max() < 1
    assert dict(form.preprocessing) == {"levels": 17, "form": "dequantized"}


class Extreme:
    """A generator that draws only the smallest or the largest number it can."""

    def __init__(self, largest: bool) -> None:
        self.largest = largest

    def randint(self, high: int, size: tuple[int, ...], dtype: str) -> NDArray[Any]:
        return np.full(size, high - 1 if self.largest else 0, dtype=dtype)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("levels", [2, 17, 256])
def test_no_rounding_crosses_a_gray_level(levels: int, largest: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepcanon.data.transforms.forms.fixed_random", lambda seed: Extreme(largest))
    x = every_gray(levels)
    noisy = dequantized(x, levels, seed=0)
    assert torch.equal((noisy * levels).floor(), torch.arange(levels).float().expand_as(x))
    assert 0 < noisy.min() < noisy.max() < 1


def test_noise_is_uniform() -> None:
    form = load_data("digits:dequantized")
    noise = (form.train.x.double() * 17) % 1
    assert kstest(noise.flatten()[::7], "uniform").pvalue > 1e-3


def test_noise_is_drawn_once_and_differs_between_parts() -> None:
    again = [load_data("digits:dequantized") for _ in range(2)]
    assert all(torch.equal(again[0].split(part).x, again[1].split(part).x) for part in PARTS)
    x = every_gray(17)
    data = in_form(
        Dataset("grays", "images", Batch(x), Batch(x), Batch(x), preprocessing={"levels": 17}), "dequantized"
    )
    assert not torch.equal(data.split("train").x, data.split("valid").x)
    assert not torch.equal(data.split("valid").x, data.split("test").x)


def test_a_form_leaves_missing_parts_missing() -> None:
    data: Dataset[Any] = in_form(
        Dataset("grays", "images", Batch(every_gray(17)), preprocessing={"levels": 17}), "binary"
    )
    assert data.valid is None
    assert data.test is None
    assert set(data.train.x.unique().tolist()) == {0.0, 1.0}


def test_forms_keep_the_type() -> None:
    x = every_gray(17).double()
    assert binary(x, 17, 0).dtype == dequantized(x, 17, 0).dtype == torch.float64


def test_gray_levels_are_whole_numbers_whose_number_is_a_size() -> None:
    plain, form = load_data("digits"), load_data("digits:levels")
    for split in ("train", "valid", "test"):
        assert torch.equal(form.split(split).x / 16, plain.split(split).x)
        assert torch.equal(form.split(split).y, plain.split(split).y)
    assert set(form.train.x.unique().tolist()) == set(range(17))
    assert form.sizes == {**plain.sizes, "levels": 17}
    assert dict(form.preprocessing) == {"levels": 17, "form": "levels"}
    assert load_data("digits:binary").sizes["levels"] == 2
    assert load_data("digits:dequantized").sizes["levels"] == 17
    limits = {form: black_and_white(load_data(f"digits{form}").preprocessing) for form in ("", ":binary", ":levels")}
    assert limits == {"": (0.0, 1.0), ":binary": (0.0, 1.0), ":levels": (0.0, 16.0)}


def test_spins_are_the_binary_form_with_minus_one_for_zero() -> None:
    spins, bits = load_data("digits:spins"), load_data("digits:binary")
    assert torch.equal(spins.split("test").x, 2 * bits.split("test").x - 1)
    assert spins.train.x.unique().tolist() == [-1.0, 1.0]
    assert black_and_white(spins.preprocessing) == (-1.0, 1.0)
    assert spins.sizes == bits.sizes


@pytest.mark.parametrize("name", ["moons:binary", "text:dequantized", "karate:binary", "rows.csv:binary"])
def test_only_images_and_videos_have_forms(name: str) -> None:
    with pytest.raises(UsageError, match=r"but the forms binary, spins, dequantized, levels are for images and videos"):
        load_data(name)


@pytest.mark.parametrize("name", ["digits:round", "digits:", "mnist:binry", "digits:Binary"])
def test_unknown_forms_are_refused_before_anything_is_loaded(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"there is no form .* of (digits|mnist); 'deepcanon data' lists the forms of data"
    ):
        load_data(name)


def test_fresh_noise_gives_the_gray_levels_back() -> None:
    levels = torch.arange(256.0).repeat(20_000, 1)
    noisy = dequantized_anew(Batch((levels + 0.5) / 256), torch.Generator().manual_seed(0), levels=256).x
    assert torch.equal((noisy * 256).floor(), levels)
    assert float(noisy.min()) > 0
    assert float(noisy.max()) < 1
