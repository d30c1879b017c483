"""Gradient descent on quadratics of known spectrum, and the curvature of a small network beside its dense Hessian."""

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.insights._engines.objective import Objective
from deepcanon.insights.curvature import (
    contraction,
    curvature,
    effective_rate,
    heavy_ball_radius,
    learning_rates,
    measured_contraction,
)

SPECTRUM = torch.tensor([0.5, 1.0, 2.0, 4.0, 10.0], dtype=torch.float64)


def quadratic() -> tuple[Tensor, Tensor]:
    """A matrix of the spectrum and its eigenvectors, in columns."""
    draw = torch.randn(5, 5, generator=Generator().manual_seed(0), dtype=torch.float64)
    vectors, _ = torch.linalg.qr(draw)
    return vectors @ torch.diag(SPECTRUM) @ vectors.T, vectors


def descended(matrix: Tensor, start: Tensor, steps: int, lr: float, momentum: float = 0.0) -> Tensor:
    """Where torch's own descent on the quadratic ends."""
    theta = nn.Parameter(start.clone())
    optimizer = torch.optim.SGD([theta], lr=lr, momentum=momentum)
    for _ in range(steps):
        optimizer.zero_grad()
        (theta @ matrix @ theta / 2).backward()
        optimizer.step()
    return theta.detach()


class Quadratic(nn.Module):
    """A model whose loss is a quadratic of its weights."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix)
        self.theta = nn.Parameter(torch.arange(1.0, len(matrix) + 1, dtype=matrix.dtype))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        return {"energy": self.theta @ self.get_buffer("matrix") @ self.theta / 2}


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.19])
def test_each_direction_contracts_by_one_minus_rate_times_eigenvalue(rate: float) -> None:
    matrix, vectors = quadratic()
    start = vectors.sum(1)  # as far from the minimum in every direction
    along = vectors.T @ descended(matrix, start, 1, rate)
    anywhere = torch.randn(5, generator=Generator().manual_seed(1), dtype=torch.float64)
    for i, value in enumerate(SPECTRUM.tolist()):
        factor = contraction(rate, value)
        assert float(along[i]) == pytest.approx(factor, abs=1e-6)
        measured = measured_contraction(lambda x: x @ matrix @ x / 2, anywhere, vectors[:, i], rate)
        assert measured == pytest.approx(factor, abs=1e-6)


def test_no_fixed_rate_is_better_than_the_best() -> None:
    """The slowest direction decides: beside the best rate, all others lose."""
    rates = learning_rates(0.5, 10.0)
    assert rates.condition == 20
    slowest = (1 - rates.best * SPECTRUM).abs().max()
    assert float(slowest) == pytest.approx(rates.contraction) == pytest.approx(19 / 21)
    others = torch.linspace(0.001, 0.25, 500, dtype=torch.float64)
    assert (1 - others[:, None] * SPECTRUM).abs().amax(1).min() >= rates.contraction - 1e-12
    at_inverse = (1 - SPECTRUM / 10.0).abs().max()
    assert float(at_inverse) == pytest.approx(1 - 0.5 / 10)


def test_the_distance_shrinks_by_the_best_contraction() -> None:
    matrix, vectors = quadratic()
    rates = learning_rates(0.5, 10.0)
    both = vectors[:, 0] + vectors[:, -1]  # the directions that are slowest at the best rate
    after = [descended(matrix, both, steps, rates.best).norm() for steps in (20, 21)]
    assert float(after[1] / after[0]) == pytest.approx(rates.contraction, abs=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.81, 0.95])
@pytest.mark.parametrize("product", [0.0, 0.01, 0.5, 2.0, 3.6, 5.0])
def test_the_radius_is_that_of_the_matrix_of_a_step(momentum: float, product: float) -> None:
    step = torch.tensor([[1 + momentum - product, -momentum], [1, 0]], dtype=torch.float64)
    true = torch.linalg.eigvals(step).abs().max()
    assert heavy_ball_radius(0.1, product / 0.1, momentum) == pytest.approx(float(true), rel=1e-6, abs=1e-6)


def test_the_heavy_ball_shrinks_by_the_root_of_its_momentum() -> None:
    """Torch's own heavy ball, over many steps, in every direction that oscillates."""
    matrix, vectors = quadratic()
    rates = learning_rates(0.5, 10.0)
    lr = rates.best_with_momentum
    for value in SPECTRUM.tolist()[1:-1]:  # at the two ends the roots meet, and the path has a factor of time
        assert heavy_ball_radius(lr, value, rates.momentum) == pytest.approx(math.sqrt(rates.momentum))
    # a rotation by some angle per step: what many steps leave, on average over a period, is the radius
    inner = vectors[:, 2]
    lengths = [descended(matrix, inner, steps, lr, rates.momentum).norm().log() for steps in range(20, 60)]
    slope = torch.stack(lengths).diff().mean()
    assert math.exp(float(slope)) == pytest.approx(math.sqrt(rates.momentum), rel=0.05)


def test_momentum_multiplies_the_rate_while_the_gradient_stays() -> None:
    theta = nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.SGD([theta], lr=0.1, momentum=0.9)
    places = []
    for _ in range(300):
        theta.grad = torch.ones((), dtype=torch.float64)
        optimizer.step()
        places.append(float(theta.detach()))
    assert places[-2] - places[-1] == pytest.approx(effective_rate(0.1, 0.9)) == pytest.approx(1.0)


def test_the_extremes_of_a_small_network_are_those_of_its_dense_hessian() -> None:
    torch.manual_seed(0)
    model, batch = ToyClassifier.example()
    loss = Objective(model, batch)
    dense = torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, loss.theta))
    state = torch.get_rng_state()
    numbers = curvature(model, batch).numbers
    assert torch.equal(torch.get_rng_state(), state)
    assert numbers["lowest"] == pytest.approx(float(dense[0]), rel=0.01)
    assert numbers["highest"] == pytest.approx(float(dense[-1]), rel=0.01)
    assert numbers["shape"] == "saddle"
    assert numbers["condition_number"] is None
    assert numbers["measured_contraction"]["steepest"] == pytest.approx(
        numbers["predicted_contraction"]["steepest"], abs=1e-4
    )


def test_the_finding_tells_the_rates_of_a_bowl() -> None:
    matrix, _ = quadratic()
    finding = curvature(Quadratic(matrix), Batch(torch.zeros(1, 1)))
    numbers = finding.numbers
    assert numbers["shape"] == "bowl"
    assert numbers["condition_number"] == pytest.approx(20)
    assert numbers["best_rate"] == pytest.approx(2 / 10.5)
    assert numbers["one_step_contraction"] == pytest.approx(0.95)
    for name in ("steepest", "lowest"):
        assert numbers["measured_contraction"][name] == pytest.approx(numbers["predicted_contraction"][name], abs=1e-6)
    assert any("Condition number 20" in line for line in finding.says)


def test_the_mode_decides_about_dropout_and_batch_norm() -> None:
    """In training mode the loss is another function, but one function; the model keeps its statistics and its mode."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(), nn.Linear(6, 2))
    batch = ToyClassifier.example()[1]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rest, work = (curvature(model, batch, mode=mode).numbers["highest"] for mode in ("eval", "train"))
    assert rest != pytest.approx(work, rel=0.01)
    assert curvature(model, batch, mode="train").numbers["highest"] == work
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(UsageError, match="eigenvalues above zero"):
        learning_rates(-1.0, 2.0)
    with pytest.raises(UsageError, match="momentum"):
        effective_rate(0.1, 1.0)
    with pytest.raises(UsageError, match="no loss"):
        curvature(nn.Linear(2, 2), Batch(torch.zeros(3, 2)))
    with pytest.raises(UsageError, match="no parameter"):
        curvature(nn.ReLU(), Labeled(torch.zeros(3, 2), torch.zeros(3, 2)))
