"""The best linear autoregression is that of least squares, and its forecasts are those of an AR(p)."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Series, UsageError
from deepcanon.data import Dataset
from deepcanon.models.recurrent.autoregression import Autoregression


def scale_of(batch: Series) -> Tensor:
    """The scale of each series: 1 plus the mean absolute value of its given steps."""
    given = torch.arange(batch.x.shape[1]) < batch.origins.unsqueeze(1)
    return torch.stack([1 + x[steps].abs().mean(0) for x, steps in zip(batch.x, given, strict=True)])


TRUE = (0.5, -0.6, 0.3)
"""The coefficients of the last three steps, the last one first."""


def series(rows: int, steps: int, origin: int) -> Series:
    """Stationary autoregressions of order 3 with a mean of their own."""
    random = np.random.RandomState(0)
    x = random.standard_normal((rows, steps + 50))
    for step in range(3, x.shape[1]):
        x[:, step] += 0.4 + sum(a * x[:, step - 1 - lag] for lag, a in enumerate(TRUE))
    full = torch.full((rows,), steps)
    return Series(torch.from_numpy(x[:, 50:, None].copy()), full, torch.full_like(full, origin))


def regression(batch: Series, order: int, scaled: bool = True) -> tuple[Any, Any, float]:
    """Coefficients, the last step first, intercept and residual variance of least squares, in units of the scales."""
    z = (batch.x / (scale_of(batch).unsqueeze(1) if scaled else 1)).squeeze(2).numpy()
    origin = int(batch.origins[0])
    targets = z[:, origin:].ravel()
    lagged = [z[:, origin - lag : z.shape[1] - lag].ravel() for lag in range(1, order + 1)]
    found, residual, *_ = np.linalg.lstsq(np.stack([*lagged, np.ones_like(targets)], 1), targets)
    return found[:-1], found[-1], float(residual[0]) / len(targets)


def solved(batch: Series, order: int, scaled: bool = True) -> Autoregression:
    """The linear model with the weights of least squares and the residual variance."""
    coefficients, intercept, variance = regression(batch, order, scaled)
    model = Autoregression(features=1, order=order, scaled=scaled, head="gaussian").double()
    layer: Any = model.mean[0]
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(coefficients[::-1].copy()))
        layer.bias.fill_(float(intercept))
        model.others.fill_(math.log(math.expm1(math.sqrt(variance) - 1e-3)))  # the inverse of the head's softplus
    return model


@pytest.mark.parametrize(("rows", "scaled"), [(1, True), (5, True), (5, False)])
def test_least_squares_has_the_best_likelihood(rows: int, scaled: bool) -> None:
    batch = series(rows, 200, origin=4)
    model = solved(batch, 4, scaled)
    loss = model.loss(batch)["nll"]
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    assert max(float(each.abs().max()) for each in gradients) < 1e-10
    _, _, variance = regression(batch, 4, scaled)
    scales = float(scale_of(batch).log().mean()) if scaled else 0.0  # the density is one of the data in their own units
    assert loss.item() == pytest.approx(0.5 * math.log(2 * math.pi * math.e * variance) + scales, rel=1e-10)


@pytest.mark.slow
def test_training_finds_it() -> None:
    batch = series(8, 300, origin=3)
    torch.manual_seed(0)
    model = Autoregression(features=1, order=3, head="gaussian").double()
    data: Dataset[Any] = Dataset(name="ar", kind="series", train=batch, sizes={"features": 1})
    dc.fit(model, data, quiet=True, epochs=400, batch_size=8, lr=3e-2, keep_weights="last", evaluate=False)
    coefficients, intercept, _ = regression(batch, 3)
    layer: Any = model.mean[0]
    np.testing.assert_allclose(layer.weight.detach()[0].flip(0), coefficients, rtol=0, atol=2e-3)
    assert float(layer.bias.detach()) == pytest.approx(float(intercept), abs=2e-3)
    np.testing.assert_allclose(coefficients, TRUE, rtol=0, atol=0.06)


def test_forecasts_are_those_of_the_recursion() -> None:
    """Two steps ahead an AR(p) is Gaussian; its mean and variance follow from the coefficients."""
    batch = series(1, 120, origin=4)
    model = solved(batch, order=3)
    coefficients, intercept, variance = regression(batch, 3)
    whole = Series(batch.x, batch.lengths, batch.lengths)
    scale = float(scale_of(whole))
    z = [*(whole.x[0, -3:, 0] / scale).tolist()]
    for _ in range(2):
        z.append(float(intercept) + sum(a * z[-1 - lag] for lag, a in enumerate(coefficients)))
    spread = math.sqrt(variance * (1 + coefficients[0] ** 2))
    drawn = model.forecast(whole, 2, samples=2000, generator=torch.Generator().manual_seed(0))[:, 0, 1, 0]
    test = stats.kstest(drawn.numpy(), stats.norm(scale * z[-1], scale * spread).cdf)
    assert test.pvalue > 1e-3


def test_hidden_layers_read_the_same_steps() -> None:
    torch.manual_seed(0)
    model = Autoregression(features=2, covariates=1, statics=3, order=2, hidden=(5,), activation="tanh").double()
    random = torch.Generator().manual_seed(0)
    x, known = (torch.randn(2, 6, size, dtype=torch.float64, generator=random) for size in (2, 1))
    full = torch.full((2,), 6)
    batch = Series(x, full, torch.tensor([2, 3]), known, torch.tensor([[1], [2]]))
    z = x / scale_of(batch).unsqueeze(1)
    assert isinstance(model.embedding, nn.Embedding)
    embedded = model.embedding(batch.statics[:, 0]) if isinstance(batch.statics, Tensor) else None
    assert embedded is not None
    lagged = z[:, 3:5].transpose(1, 2).flatten(1)  # of each feature the steps before the sixth, in their order
    wanted = model.mean(torch.cat([lagged, known[:, 5], embedded], 1))
    torch.testing.assert_close(model(*batch.inputs)[:, 5, :2], wanted, rtol=0, atol=1e-12)


def test_an_order_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="order must be at least 1"):
        Autoregression(features=1, order=0)
