"""What the normalizations of torch do to small counted tensors, digit for digit."""

import pytest
import torch
from torch import Tensor, nn

from deepcanon.nn.batch_norm import BatchNorm


def counted(*shape: int) -> Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def printed(values: Tensor) -> list[str]:
    return [f"{value:.4f}" for value in values.flatten().tolist()]


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 2)], ids=str)
def test_layer_norm_gives_the_printed_digits(shape: tuple[int, ...]) -> None:
    rows = nn.LayerNorm(list(shape[1:]))(counted(*shape))
    expected = {
        (2, 5): ["-1.4142", "-0.7071", "0.0000", "0.7071", "1.4142"],
        (2, 5, 2): [
            *("-1.5667", "-1.2185", "-0.8704", "-0.5222", "-0.1741"),
            *("0.1741", "0.5222", "0.8704", "1.2185", "1.5667"),
        ],
    }
    assert printed(rows) == 2 * expected[shape]


def test_batch_norm_of_rows_and_of_sequences_gives_the_printed_digits() -> None:
    assert printed(nn.BatchNorm1d(5)(counted(2, 5))) == ["-1.0000"] * 5 + ["1.0000"] * 5
    first, second = nn.BatchNorm1d(5)(counted(2, 5, 3))
    assert printed(first) == ["-1.1267", "-0.9941", "-0.8616"] * 5
    assert printed(second) == ["0.8616", "0.9941", "1.1267"] * 5


def test_batch_norm_of_images_gives_the_printed_digits() -> None:
    digits = printed(BatchNorm(5)(counted(2, 5, 3, 2)))
    assert digits[:4] == ["-1.1592", "-1.0929", "-1.0267", "-0.9605"]
    assert digits[-2:] == ["1.0929", "1.1592"]
