"""Residual connections: a deep net learns where the plain one does not, and its Jacobian keeps the identity."""

import math

import pytest
import torch

from deepcanon.core import Labeled
from deepcanon.core.checks import flat
from deepcanon.studies.residuals import DeepClassifier, gradients, residuals, singular_values


@pytest.mark.slow
def test_fifty_layers_learn_only_with_residuals() -> None:
    found = residuals(depths=(50,), width=24, epochs=4)
    plain, residual = (found.numbers["kinds"][kind] for kind in ("plain", "residual"))
    uniform = found.numbers["uniform"]
    assert uniform == pytest.approx(math.log(10))
    assert plain["final_loss"][0] > 0.95 * uniform
    assert residual["final_loss"][0] < 0.7 * uniform
    assert found.numbers["identity_error"] < 1e-14
    assert 1 < residual["gradients"][0] / residual["gradients"][-1] < 2 * math.e  # (1 + 1/L)^L at infinite width
    first, last = (residual["singular_values"][place] for place in (0, -1))
    assert first < 30 * last
    assert plain["singular_values"][12] < 1e-6 * plain["singular_values"][0]


def test_what_is_measured_is_what_autograd_says() -> None:
    torch.manual_seed(0)
    model = DeepClassifier(features=5, classes=3, kind="residual", depth=3, width=4).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    batch = Labeled(x, torch.arange(6) % 3)
    model.loss(batch)["nll"].backward()
    bias = model.exit.bias.grad
    assert bias is not None
    at_exit = torch.nn.functional.softmax(model(x), -1) - torch.nn.functional.one_hot(batch.y, 3)
    torch.testing.assert_close(bias * 6, at_exit.sum(0))
    expected = (at_exit @ model.exit.weight).square().mean().item()
    assert gradients(model, batch)[-1] == pytest.approx(expected)
    start = model.entrance(flat(x[:1], 5))[0].detach()
    jacobian = torch.func.jacrev(model.layers)(start)
    assert singular_values(model, x[:1]) == pytest.approx(torch.linalg.svdvals(jacobian).tolist())
