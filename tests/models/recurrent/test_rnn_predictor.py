"""The classifier without gates: linear in its inputs without a nonlinearity, and with a short memory."""

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.models.recurrent.rnn_predictor import RNNPredictor


def test_without_a_nonlinearity_it_is_linear_in_its_inputs() -> None:
    torch.manual_seed(0)
    model = RNNPredictor(features=3, targets=2, units=5, layers=2, nonlinearity="identity").double()
    x, y = torch.randn(2, 4, 6, 3, dtype=torch.float64)
    zero = model(torch.zeros_like(x))
    torch.testing.assert_close(model(x + 2 * y) - zero, model(x) + 2 * model(y) - 3 * zero, rtol=0, atol=1e-12)
    plain = RNNPredictor(features=3, targets=2, units=5, nonlinearity="tanh").double()
    at_zero = plain(torch.zeros_like(x))
    assert float((plain(x + y) - plain(x) - plain(y) + at_zero).detach().abs().max()) > 0.1


def test_another_nonlinearity_is_refused() -> None:
    with pytest.raises(UsageError, match="nonlinearity must be one of tanh, relu, identity"):
        RNNPredictor(features=3, classes=2, nonlinearity="sine")  # type: ignore[arg-type]
