"""Residual connections: a deep net learns where the plain one does not, and its Jacobian keeps the identity."""

import math

import pytest
import torch

from deepcanon.core import Labeled
from deepcanon.core.checks import flat
from deepcanon.studies.residuals import DeepClassifier, gradients, residuals, sentences, signals, singular_values


@pytest.mark.slow
def test_many_layers_learn_better_with_residuals_at_the_best_rate_of_each() -> None:
    found = residuals(depths=(30,), width=24, epochs=4, seeds=3)
    plain, residual = (found.numbers["kinds"][kind] for kind in ("plain", "residual"))
    uniform = found.numbers["uniform"]
    assert uniform == pytest.approx(math.log(10))
    assert min(plain["trained"][0]["losses"]) > 0.8 * uniform
    assert max(residual["trained"][0]["losses"]) < 0.6 * uniform
    assert "skip connections are better by" in found.says[0]
    assert found.numbers["identity_error"] < 1e-14
    assert 1 < residual["gradients"][0] / residual["gradients"][-1] < 2 * math.e  # (1 + 1/L)^L at infinite width
    first, last = (residual["singular_values"][place] for place in (0, -1))
    assert first < 30 * last
    assert plain["singular_values"][12] < 1e-4 * plain["singular_values"][0]


def test_the_headline_follows_the_numbers() -> None:
    def planted(plain: list[float | None], residual: list[float]) -> str:
        kinds = {
            kind: {"trained": [{"losses": losses, "rate": 0.1}]}
            for kind, losses in (("plain", plain), ("residual", residual))
        }
        return sentences({"depths": [9], "uniform": 2.3, "kinds": kinds, "signals": {}})[0]

    assert planted([2.0, 2.1, 2.0], [0.1, 0.2, 0.1]).endswith("without; skip connections are better by 1.900 ± 0.000.")
    assert planted([0.1, 0.2, 0.1], [2.0, 2.2, 2.0]).endswith("the plain networks are better by 1.933 ± 0.143.")
    assert planted([0.1, 0.9, 0.2], [0.2, 0.4, 0.3]).endswith("they cannot be told apart.")
    assert planted([None, None, 0.1], [0.2, 0.4, 0.3]).endswith("too few of them have a loss to compare.")


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


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_signals_grow_as_the_variances_of_branches_add_up(beta: float) -> None:
    found = signals(depth=5, width=200, seed=0, beta=beta)
    assert found["theory"] == [(1 + beta**2) ** layer for layer in range(6)]
    assert found["measured"] == pytest.approx(found["theory"], rel=0.05)
