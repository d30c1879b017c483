"""What the normalisations of torch do to small counted tensors, digit for digit, and which changes they do not see."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from deepcanon.nn.batch_norm import BatchNorm

CHANGES = (
    "weight matrix re-scaling",
    "weight matrix re-centring",
    "weight vector re-scaling",
    "data re-scaling",
    "data re-centring",
    "single case re-scaling",
)
INVARIANT = {
    "batch": (True, False, True, True, True, False),
    "weight": (True, False, True, False, False, False),
    "layer": (True, True, False, True, False, True),
}
"""Table 1 of Layer normalization (Ba et al., 2016), https://arxiv.org/abs/1607.06450."""


def counted(*shape: int) -> Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def printed(values: Tensor) -> list[str]:
    return [f"{value:.4f}" for value in values.flatten().tolist()]


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 2)], ids=str)
def test_layer_norm_gives_the_printed_digits(shape: tuple[int, ...]) -> None:
    rows = nn.LayerNorm(shape[1:])(counted(*shape))
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


def outputs(norm: str, weight: Tensor, x: Tensor) -> Tensor:
    """A linear layer with this normalisation, without the small number under the root, without gain and bias."""
    if norm == "batch":
        return F.batch_norm(F.linear(x, weight), None, None, training=True, eps=1e-30)  # torch refuses 0
    if norm == "layer":
        return F.layer_norm(F.linear(x, weight), (len(weight),), eps=0.0)
    layer = weight_norm(nn.Linear(weight.shape[1], weight.shape[0], bias=False).double())
    layer.load_state_dict(
        {
            "parametrizations.weight.original0": torch.ones(len(weight), 1),
            "parametrizations.weight.original1": weight,
        }
    )
    normalised: Tensor = layer(x)
    return normalised


def changed(change: str, weight: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    weight, x = weight.clone(), x.clone()
    shift = torch.linspace(0.5, 2, x.shape[1], dtype=x.dtype)
    if change == "weight matrix re-scaling":
        weight *= 3
    elif change == "weight matrix re-centring":
        weight += shift
    elif change == "weight vector re-scaling":
        weight[1] *= 3
    elif change == "data re-scaling":
        x *= 3
    elif change == "data re-centring":
        x += shift
    else:
        x[2] *= 3
    return weight, x


@pytest.mark.parametrize(("norm", "change"), list(itertools.product(INVARIANT, CHANGES)))
def test_the_table_of_invariances_holds(norm: str, change: str) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((6, 4), (8, 4)))
    difference = (outputs(norm, *changed(change, weight, x)) - outputs(norm, weight, x)).abs().max().item()
    if INVARIANT[norm][CHANGES.index(change)]:
        assert difference < 1e-10
    else:
        assert difference > 0.1
