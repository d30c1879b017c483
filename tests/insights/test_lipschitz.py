"""Lipschitz constants: exact for linear maps; slopes that were found, the Jacobian and the bound come in this order."""

import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, DataError, Sequences, UsageError
from deepcanon.insights import lipschitz as module
from deepcanon.insights.lipschitz import bound, lipschitz, local_constants, pair_slopes, product_bound, sampled_slopes
from deepcanon.nn.activations import Swish
from deepcanon.nn.connections import Residual


def examples(*shape: int) -> Batch:
    return Batch(torch.randn(*shape, generator=Generator().manual_seed(0)))


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Dropout(0.3), nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 3),
        )  # fmt: skip


def test_a_linear_map_has_its_norm_from_below_and_from_above() -> None:
    layer = nn.Linear(7, 4)
    norm = float(torch.linalg.matrix_norm(layer.weight.detach().double(), 2))
    numbers = lipschitz(layer, examples(10, 7), directions=5).numbers
    assert numbers["bound"] == pytest.approx(norm, rel=1e-12)
    assert numbers["local_by_example"] == pytest.approx([norm] * 10, rel=1e-9)
    assert numbers["pairs"] <= norm * (1 + 1e-9)


def test_a_deep_linear_chain_is_exact_where_its_layers_agree() -> None:
    """Orthogonal layers stretch all directions alike, so that the product of their norms is the constant itself."""
    layers = [nn.Linear(5, 5, bias=False) for _ in range(3)]
    for layer, gain in zip(layers, (2.0, 0.5, 3.0), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
    chain = nn.Sequential(*layers)
    assert product_bound(chain, examples(2, 5)) == pytest.approx(3.0, rel=1e-6)
    assert local_constants(chain, examples(2, 5)).tolist() == pytest.approx([3.0, 3.0], rel=1e-6)


def test_found_slopes_are_below_the_jacobian_and_that_below_the_bound() -> None:
    model, batch = network(), examples(30, 1, 6, 6)
    numbers = lipschitz(model, batch).numbers
    assert all(
        low <= high for low, high in zip(numbers["sampled_by_example"], numbers["local_by_example"], strict=True)
    )
    assert 0 < numbers["sampled"] <= numbers["local"] <= numbers["bound"]
    assert 0 < numbers["pairs"] <= numbers["bound"]
    assert numbers["chain"]
    assert numbers["bound"] == pytest.approx(product_bound(model, batch))
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_jacobian_is_that_of_autograd() -> None:
    model, batch = network(), examples(3, 1, 6, 6)
    local = local_constants(model, batch)
    model.double().eval()
    for x, value in zip(batch.x.double(), local, strict=True):
        rows = torch.autograd.functional.jacobian(lambda row: model(row.unsqueeze(0)).flatten(), x).flatten(1)
        torch.testing.assert_close(value, torch.linalg.matrix_norm(rows, 2))


def test_many_outputs_give_the_same_by_products(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = network(), examples(4, 1, 6, 6)
    exact, tried = local_constants(model, batch), sampled_slopes(model, batch, 6)
    monkeypatch.setattr(module, "FEW", 1)
    torch.testing.assert_close(local_constants(model, batch), exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(sampled_slopes(model, batch, 6), tried)


def test_pairs_are_all_pairs() -> None:
    model, batch = network(), examples(4, 1, 6, 6)
    model.double().eval()
    x = batch.x.double()
    y = model(x).detach()
    expected = [float((y[i] - y[j]).norm() / (x[i] - x[j]).norm()) for i in range(4) for j in range(i + 1, 4)]
    assert pair_slopes(model, batch).tolist() == pytest.approx(expected)


def test_a_residual_block_adds_the_input_itself() -> None:
    """The term i = 0 of the sum: the direct way from x."""
    inner = nn.Linear(4, 4)
    norm = float(torch.linalg.matrix_norm(inner.weight.detach().double(), 2))
    blocks = nn.Sequential(Residual(inner), Residual(inner))
    found = bound(blocks, examples(1, 4))
    assert found.value == pytest.approx((1 + norm) ** 2)
    assert not found.chain
    with pytest.raises(UsageError, match="plain chain"):
        product_bound(blocks, examples(1, 4))
    doubling = Residual(nn.Identity())
    assert bound(doubling, examples(1, 4)).value == pytest.approx(2.0)
    assert local_constants(doubling, examples(1, 4)).tolist() == pytest.approx([2.0])


def test_what_has_no_known_constant_is_named() -> None:
    finding = lipschitz(nn.Sequential(nn.Linear(3, 3), Swish()), examples(5, 3))
    assert finding.numbers["bound"] is None
    (named,) = finding.numbers["unbounded"]
    assert named.startswith("1: mul")
    assert any(named in line for line in finding.says)
    with pytest.raises(UsageError, match="1: mul"):
        product_bound(nn.Sequential(nn.Linear(3, 3), Swish()), examples(5, 3))


def test_inputs_without_distances_are_refused() -> None:
    with pytest.raises(DataError, match="real inputs"):
        lipschitz(nn.Embedding(3, 2), Sequences(torch.zeros(1, 2, dtype=torch.long), torch.tensor([2])))

    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    with pytest.raises(UsageError, match="one tensor"):
        bound(Two(), examples(1, 2))
