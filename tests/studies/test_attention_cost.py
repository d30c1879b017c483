"""The cost of attention: exponents and paths are those of the table of Vaswani et al."""

import math

import pytest

from deepcanon.core import UsageError
from deepcanon.studies.attention_cost import attention_cost, path_length


@pytest.mark.slow
def test_operations_memory_and_paths_grow_as_the_table_says() -> None:
    found = attention_cost(lengths=(128, 256), widths=(8, 16), kernel=3, reach=16)
    layers = found.numbers["layers"]
    for name, by_length, by_width in (
        ("attention", 2, 1), ("recurrent", 1, 2), ("convolution", 1, 2), ("restricted attention", 1, 1),
    ):  # fmt: skip
        powers = layers[name]["exponents"]
        assert powers["operations"] == pytest.approx(by_length, abs=1e-3), name
        assert powers["operations_by_width"] == pytest.approx(by_width, abs=1e-3), name
        assert powers["sequential"] == pytest.approx(1 if name == "recurrent" else 0, abs=0.02), name
    assert layers["attention"]["operations"][0] == 2 * 2 * 128**2 * 8  # the scores and the mixture, two each
    assert layers["recurrent"]["operations"][0] == 2 * 2 * 128 * 8**2
    assert layers["convolution"]["operations"][0] == 2 * 3 * 128 * 8**2
    assert layers["linear attention"]["exponents"]["operations"] == pytest.approx(1, abs=0.05)
    assert layers["attention"]["exponents"]["memory"] > 1.8
    assert 0.9 < layers["linear attention"]["exponents"]["memory"] < 1.1
    assert layers["attention"]["paths"] == layers["linear attention"]["paths"] == [1, 1]
    assert layers["recurrent"]["paths"] == [128, 256]
    assert layers["restricted attention"]["paths"] == [math.ceil(127 / 16), math.ceil(255 / 16)]
    assert f"a path of {layers['recurrent']['paths'][-1]}" in found.says[0]


@pytest.mark.parametrize("length", [5, 9, 10, 27, 28])
def test_the_path_of_dilated_convolutions_is_a_logarithm(length: int) -> None:
    assert path_length("convolution", length, 3, 1) == math.ceil(round(math.log(length, 3), 9))


def test_a_reach_beyond_the_text_is_refused() -> None:
    with pytest.raises(UsageError, match="less than the whole text"):
        attention_cost(lengths=(8, 16), reach=8)
