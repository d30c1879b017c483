"""All N! 2^N rearrangements of a layer leave its function as it is, where the activation allows it."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.insights.symmetries import by_activation, equal_weights, hidden_layers, permute, rescale, symmetries

X = torch.randn(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def net(activation: nn.Module, units: int = 4) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, units), activation, nn.Linear(units, 2)).double().requires_grad_(False)


def by_hand(model: nn.Sequential, order: tuple[int, ...], signs: tuple[float, ...]) -> Tensor:
    """The outputs with the units in this order and with these signs, written out anew."""
    first, last = model[0], model[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    weight = torch.stack([signs[i] * first.weight[i] for i in order])
    bias = torch.stack([signs[i] * first.bias[i] for i in order])
    out = torch.stack([signs[i] * last.weight[:, i] for i in order], dim=1)
    return torch.tanh(X @ weight.T + bias) @ out.T + last.bias


@pytest.mark.slow
def test_all_384_rearrangements_of_four_tanh_units_are_one_function() -> None:
    model = net(nn.Tanh())
    seen = set()
    for order in itertools.permutations(range(4)):
        for signs in itertools.product([1.0, -1.0], repeat=4):
            moved = net(nn.Tanh())
            (layer,) = hidden_layers(moved)
            rescale(layer, torch.tensor(signs, dtype=torch.float64))
            permute(layer, torch.tensor(order))
            assert float((moved(X) - model(X)).abs().max()) < 1e-12
            assert float((moved(X) - by_hand(model, order, signs)).abs().max()) < 1e-12
            seen.add(tuple(nn.utils.parameters_to_vector(moved.parameters()).tolist()))
    assert len(seen) == math.factorial(4) * 2**4 == equal_weights(hidden_layers(model)[0]), "all of them distinct"


@pytest.mark.parametrize(
    ("activation", "ways", "factor"),
    [(nn.Tanh(), 384, False), (nn.Sigmoid(), 384, False), (nn.ReLU(), 24, True), (nn.GELU(), 24, False)],
    ids=["tanh", "sigmoid", "relu", "gelu"],
)
def test_which_hold_depends_on_the_activation(activation: nn.Module, ways: int, factor: bool) -> None:
    model = net(activation)
    before = nn.utils.parameters_to_vector(model.parameters()).clone()
    found = symmetries(model, Batch(X)).numbers
    assert found["tried"] == {"layer": "0", "units": 4, "ways": ways}
    assert found["largest_change"]["symmetry"] < 1e-12
    assert found["largest_change"]["one side only"] > 1e-3
    assert ("factor" in found["largest_change"]) == factor
    if factor:
        assert found["largest_change"]["factor"] < 1e-12
    assert 10 ** found["log10_equal"] == pytest.approx(ways)
    assert torch.equal(nn.utils.parameters_to_vector(model.parameters()), before)


def test_the_table_of_activations() -> None:
    table = {name: tuple(holds.values()) for name, holds in by_activation().items()}
    assert table["Tanh"] == table["Softsign"] == (True, True, True, False)
    assert table["Sigmoid"] == (True, False, True, False)
    assert table["ReLU"] == table["LeakyReLU"] == (True, False, False, True)
    assert table["GELU"] == table["SiLU"] == table["Softplus"] == (True, False, False, False)


def test_a_sign_flip_is_not_a_symmetry_of_a_relu() -> None:
    model, moved = net(nn.ReLU()), net(nn.ReLU())
    rescale(hidden_layers(moved)[0], torch.tensor([-1.0, 1.0, 1.0, 1.0], dtype=torch.float64))
    assert float((moved(X) - model(X)).abs().max()) > 1e-3


def test_layers_multiply_and_large_ones_are_tried_at_random() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)
    ).train()
    state = torch.get_rng_state()
    found = symmetries(model, Batch(X.float()), tries=20)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    count = math.factorial(6) * 2**6 * math.factorial(5) * 2**5
    assert found.numbers["log10_equal"] == pytest.approx(math.log10(count))
    assert found.numbers["tried"] == {"layer": "3", "units": 5, "ways": 20}
    assert found.numbers["largest_change"]["symmetry"] < 1e-12


def test_a_model_without_a_hidden_layer_is_refused() -> None:
    normed = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    assert hidden_layers(normed) == []
    assert hidden_layers(nn.Sequential(nn.Linear(3, 4), nn.Softmax(-1), nn.Linear(4, 1))) == []
    with pytest.raises(UsageError, match="symmetries are those of hidden layers"):
        symmetries(normed, Batch(X))
