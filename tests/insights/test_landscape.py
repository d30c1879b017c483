"""Slices are exact on a quadratic, pass through the checkpoints, and do not change when a network is only rescaled."""

import math

import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.insights._engines.objective import Objective
from deepcanon.insights.landscape import (
    Scale,
    between,
    landscape,
    over_line,
    over_plane,
    random_direction,
    trajectory_plane,
)

BATCH = ToyClassifier.example()[1]


class Quadratic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = Generator().manual_seed(0)
        draw = torch.randn(6, 6, generator=generator)
        self.register_buffer("matrix", draw @ draw.T)
        self.theta = nn.Parameter(torch.randn(2, 3, generator=generator))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        flat = self.theta.flatten()
        return {"energy": flat @ self.get_buffer("matrix") @ flat / 2}


def network(seed: int = 0, width: int = 7) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 2))


def trained(steps: int, every: int) -> tuple[nn.Module, list[dict[str, Tensor]]]:
    model = nn.Sequential(network(), nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    saved = []
    for step in range(steps + 1):
        if step % every == 0:
            saved.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(BATCH.x), BATCH.y).backward()
        optimizer.step()
    model.load_state_dict(saved[-1])
    return model, saved


def own_loss(model: nn.Module, state: dict[str, Tensor]) -> float:
    """What the model says in evaluation mode with these weights, in double precision."""
    model.load_state_dict(state)
    model.double().eval()
    with torch.no_grad():
        value = float(nn.functional.cross_entropy(model(BATCH.x.double()), BATCH.y))
    model.float().train()
    return value


def test_slices_of_a_quadratic_are_its_own_parabolas() -> None:
    model = Quadratic()
    loss = Objective(model, Batch(torch.zeros(1, 1)))
    a, b = (random_direction(loss.parameters, seed) for seed in (0, 1))
    matrix, point = loss.state["matrix"], loss.theta
    u, v = (direction["theta"].flatten() for direction in (a, b))
    steps = [-1.0, 0.0, 0.5, 2.0]
    expected = [[float(w @ matrix @ w / 2) for x in steps for w in [point + x * u + y * v]] for y in steps]
    assert over_plane(loss, loss.state, a, b, steps, steps) == [pytest.approx(row) for row in expected]
    assert over_line(loss, loss.state, a, steps) == pytest.approx(expected[1])


@pytest.mark.parametrize("count", [2, 3, 8])
def test_slices_pass_through_the_losses_of_the_checkpoints(count: int) -> None:
    """Running statistics included: the losses are those of the model with each checkpoint loaded."""
    model, saved = trained(steps=4 * (count - 1), every=4)
    numbers = landscape(model, BATCH, saved, points=5).numbers
    truth = [own_loss(model, state) for state in saved]
    assert numbers["checkpoint_losses"] == pytest.approx(truth, abs=1e-6)
    path = numbers["path"]
    at_checkpoints = [path["losses"][path["distance"].index(distance)] for distance in path["checkpoints"]]
    assert at_checkpoints == pytest.approx(truth, abs=1e-6)
    assert numbers["loss"] == pytest.approx(truth[-1], abs=1e-6)
    if count <= 3:  # then all lie in the plane
        assert numbers["plane"]["share"] == pytest.approx(1)
        assert numbers["plane"]["losses_at_coordinates"] == pytest.approx(truth, abs=1e-6)
    else:
        assert 0.5 < numbers["plane"]["share"] < 1


def test_the_straight_line_ends_at_its_states() -> None:
    loss = Objective(network(0), BATCH)
    other = Objective(network(1), BATCH)
    ends = between(loss, loss.state, other.state, [0.0, 1.0])
    assert ends == pytest.approx([float(loss(loss.theta)), float(other(other.theta))], abs=1e-12)


def test_the_plane_holds_the_principal_components() -> None:
    """Singular values of the differences, by NumPy's own decomposition of the flat vectors."""
    generator = Generator().manual_seed(0)
    flat = torch.randn(6, 12, generator=generator, dtype=torch.float64)
    checkpoints = [{"w": row[:8].view(4, 2), "b": row[8:]} for row in flat]
    plane = trajectory_plane(checkpoints, checkpoints[0])
    values = torch.linalg.svdvals(flat - flat[-1])
    assert plane.share == pytest.approx(float(values[:2].square().sum() / values.square().sum()))
    first, second = (torch.cat([d["w"].flatten(), d["b"]]) for d in (plane.first, plane.second))
    torch.testing.assert_close(torch.stack([first @ first, first @ second]), torch.tensor([1.0, 0.0]).double())
    for row, point in zip(flat, plane.coordinates, strict=True):
        assert [float((row - flat[-1]) @ axis) for axis in (first, second)] == pytest.approx(point, abs=1e-12)


def test_a_straight_trajectory_gets_an_orthogonal_second_direction() -> None:
    ends = [{"w": torch.tensor([[2.0, 0.0]]).double()}, {"w": torch.tensor([[0.0, 0.0]]).double()}]
    plane = trajectory_plane(ends, ends[0], {"w": torch.tensor([[1.0, 1.0]]).double()})
    assert plane.coordinates[0] == pytest.approx((2.0, 0.0))
    assert plane.coordinates[1] == (0.0, 0.0)
    assert plane.second["w"].tolist() == [pytest.approx([0.0, 1.0])]
    assert plane.share == pytest.approx(1)


def slices(model: nn.Module, scale: Scale, mode: str = "eval") -> list[float]:
    loss = Objective(model, BATCH, mode)  # type: ignore[arg-type]
    return over_line(loss, loss.state, random_direction(loss.parameters, 3, scale), [-1.0, -0.4, 0.3, 0.8])


@torch.no_grad()
def rescaled(model: nn.Sequential, factors: Tensor) -> nn.Sequential:
    """The same function with each hidden unit multiplied by its factor, and divided by it again."""
    other = network()
    other.load_state_dict(model.state_dict())
    first, last = other[0], other[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    first.weight.mul_(factors[:, None])
    first.bias.mul_(factors)
    last.weight.div_(factors)
    return other


def test_a_rescaled_layer_looks_the_same_through_filters() -> None:
    model = network()
    other = rescaled(model, torch.full((7,), 10.0))
    assert slices(other, "filter") == pytest.approx(slices(model, "filter"), rel=1e-6)
    assert slices(other, "none") != pytest.approx(slices(model, "none"), rel=0.1)


def test_rescaled_units_look_the_same_through_weights() -> None:
    model = network()
    other = rescaled(model, torch.linspace(0.1, 5, 7))
    assert slices(other, "weight") == pytest.approx(slices(model, "weight"), rel=1e-5)
    assert slices(other, "filter") != pytest.approx(slices(model, "filter"), rel=0.01)


def test_rescaled_filters_before_a_batch_norm_look_the_same() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 5, bias=False), nn.BatchNorm1d(5, eps=1e-12), nn.ReLU(), nn.Linear(5, 2)
    ).double()
    before = slices(model, "filter", "train")
    layer = model[0]
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.mul_(torch.linspace(0.2, 9, 5)[:, None])
    assert slices(model, "filter", "train") == pytest.approx(before, rel=1e-6)


def test_the_model_stays_as_it_is() -> None:
    model, saved = trained(steps=4, every=4)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    finding = landscape(model, BATCH, saved, points=3, mode="train")
    assert torch.equal(torch.get_rng_state(), random)
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert len(finding.figure.axes) == 3


def test_without_a_trajectory_there_is_the_random_plane() -> None:
    model = network()
    finding = landscape(model, BATCH, [model.state_dict()], points=3)
    assert "plane" not in finding.numbers
    assert finding.numbers["random"]["losses"][1][1] == pytest.approx(finding.numbers["loss"])
    assert any("no earlier checkpoints" in line for line in finding.says)


def test_holes_are_counted() -> None:
    class Log(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(1, 1))

        def loss(self, batch: Batch) -> dict[str, Tensor]:
            return {"log": -self.w.sum().log()}

    finding = landscape(Log(), Labeled(torch.zeros(1, 1), torch.zeros(1, 1)), [], points=5, reach=2.0)
    holes = sum(not math.isfinite(value) for row in finding.numbers["random"]["losses"] for value in row)
    assert 0 < holes < 25
    assert any(f"At {holes} points" in line for line in finding.says)


def test_checkpoints_of_another_model_are_refused() -> None:
    with pytest.raises(UsageError, match="another shape"):
        landscape(network(width=7), BATCH, [network(width=3).state_dict()])
    with pytest.raises(UsageError, match="missing"):
        landscape(network(), BATCH, [{"w": torch.zeros(1)}])
    with pytest.raises(UsageError, match="scale"):
        random_direction({"w": torch.zeros(1)}, scale="large")  # type: ignore[arg-type]
