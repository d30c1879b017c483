"""Plain dropout compared with torch's inverted one: expectations, and the rule to scale weights where it is exact."""

import itertools

import pytest
import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.nn.dropout import PlainDropout


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_evaluation_gives_the_mean_over_all_masks_weighted_by_the_probability_to_keep(p: float) -> None:
    x = torch.randn(6, dtype=torch.float64)
    mean = torch.zeros_like(x)
    for mask in itertools.product((0, 1), repeat=6):
        mean += (1 - p) ** sum(mask) * p ** (6 - sum(mask)) * torch.tensor(mask) * x
    torch.testing.assert_close(PlainDropout(p).eval()(x), mean)


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_scaled_weights_are_the_geometric_mean_of_all_masks_of_one_softmax_layer(p: float) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(5, 3).double(), torch.randn(5, dtype=torch.float64)
    logs = torch.zeros(3, dtype=torch.float64)
    for mask in itertools.product((0, 1), repeat=5):
        share = (1 - p) ** sum(mask) * p ** (5 - sum(mask))
        logs += share * linear(torch.tensor(mask) * x).log_softmax(-1)
    net = nn.Sequential(PlainDropout(p), linear).eval()
    torch.testing.assert_close(net(x).softmax(-1), logs.exp() / logs.exp().sum())


def test_training_differs_from_torchs_inverted_form_by_the_probability_to_keep() -> None:
    x = torch.randn(100_000, dtype=torch.float64).abs() + 0.1
    torch.manual_seed(0)
    plain = PlainDropout(0.3)(x)
    torch.manual_seed(0)
    inverted = nn.Dropout(0.3)(x)
    assert ((plain == 0) | (plain == x)).all()
    assert (plain == 0).double().mean().item() == pytest.approx(0.3, abs=0.01)
    torch.testing.assert_close(plain, 0.7 * inverted)
    torch.testing.assert_close(PlainDropout(0.3).eval()(x), 0.7 * nn.Dropout(0.3).eval()(x))


def test_no_dropout_is_the_input_itself_and_impossible_ones_are_refused() -> None:
    x = torch.randn(3)
    assert PlainDropout(0.0)(x) is x
    with pytest.raises(UsageError, match="from 0 to below 1"):
        PlainDropout(1.0)
