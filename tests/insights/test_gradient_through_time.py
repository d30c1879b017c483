"""Products of Jacobians are those of autograd through the whole network, and powers where it is linear."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, LabeledSequences, Sequences, UsageError
from deepcanon.insights.gradient_through_time import gradient_through_time, products, read
from deepcanon.pictures.legibility import faults


def tokens(rows: int, steps: int, vocab: int = 5) -> Sequences:
    x = torch.randint(vocab, (rows, steps), generator=torch.Generator().manual_seed(0))
    return Sequences(x, torch.full((rows,), steps))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rnn", {}),
        ("rnn", {"nonlinearity": "identity"}),
        ("gru", {}),
        ("gru", {"reset": "before"}),
        ("lstm", {}),
        ("lstm", {"peepholes": True}),
    ],
)
@torch.no_grad()
def test_the_product_is_the_jacobian_of_autograd(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = dc.find(name)(vocab=5, embedding=3, units=4, layers=2, **options)
    reading = read(model, tokens(2, 7))
    found = products(reading, 4)
    assert len(found) == 5
    row = 1

    def last(state: Tensor) -> Tensor:
        """The state at the end from that of four steps before, all steps in one graph."""
        for at in range(3, 7):
            state = step(at, state)
        return state[0]

    def step(at: int, state: Tensor) -> Tensor:
        one = copy.copy(reading)
        object.__setattr__(one, "x", reading.x[:, row : row + 1])
        return one.step(at, state)

    start: Tensor | None = None
    for at in range(3):
        start = reading.step(at, start)
    assert start is not None
    with torch.enable_grad():
        wanted: Any = torch.autograd.functional.jacobian(last, start[row : row + 1].clone())
    torch.testing.assert_close(found[4][row], wanted[:, 0], rtol=1e-9, atol=1e-12)


def test_the_rate_of_a_linear_network_is_its_spectral_radius() -> None:
    torch.manual_seed(0)
    model: Any = dc.find("rnn")(vocab=5, embedding=3, units=6, nonlinearity="identity").double()
    weight = model.recurrent.weight_hh_l0
    with torch.no_grad():
        weight.copy_(torch.randn(6, 6) / 3)
        values = torch.linalg.eigvals(weight).abs().sort(descending=True).values
    finding = gradient_through_time(model, tokens(3, 81), steps=80)
    powers = [float(torch.linalg.matrix_norm(torch.linalg.matrix_power(weight.detach(), k), 2)) for k in range(80)]
    assert finding.numbers["norms"][0][:80] == pytest.approx(powers, rel=1e-9)
    # eigenvalues come in pairs, so that the norm of a power swings around the power of the radius
    assert math.log(finding.numbers["rate"]) == pytest.approx(math.log(float(values[0])), abs=0.03)
    assert finding.says[0].startswith(f"Gradients vanish through time: x{finding.numbers['rate']:.3g} a step")


def test_words_follow_the_numbers() -> None:
    torch.manual_seed(0)
    model: Any = dc.find("rnn")(vocab=5, embedding=3, units=6, nonlinearity="identity")
    kept = gradient_through_time(model, tokens(2, 20))  # orthogonal, as it is initialized
    assert kept.says[0] == "Gradients keep their size through time: x1 after 19 steps."
    assert kept.says[-1].startswith("After 19 steps back, 6 of 6 directions")
    with torch.no_grad():
        model.recurrent.weight_hh_l0 *= 2
    assert gradient_through_time(model, tokens(2, 20)).says[0].startswith("Gradients explode through time: x2 a step")


@pytest.mark.slow
def test_torchs_layers_and_predictors_are_read_too() -> None:
    torch.manual_seed(0)

    class Plain(nn.Module):
        def __init__(self, layers: nn.RNNBase) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: Tensor) -> Tensor:
            h: Tensor = self.layers(x)[0]
            return h

    x = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(0))
    for layers in (nn.GRU(2, 4, batch_first=True), nn.LSTM(2, 4, batch_first=True)):
        numbers = gradient_through_time(Plain(layers), Batch(x)).numbers
        assert numbers["lags"] == [0, 1, 2, 3, 4, 5]
    both = dc.find("lstm_predictor")(features=2, classes=2, units=4, bidirectional=True)
    lengths = torch.tensor([6, 4, 5])
    finding = gradient_through_time(both, LabeledSequences(x, torch.tensor([0, 1, 1]), lengths))
    assert finding.numbers["layers"] == "recurrent.forward_layers.0"
    assert finding.numbers["lags"] == [0, 1, 2, 3]  # from the end of the shortest
    assert faults(finding.figure) == []
    assert both.training


def test_without_recurrence_there_is_nothing_to_follow() -> None:
    with pytest.raises(UsageError, match="Linear has no recurrent layers"):
        gradient_through_time(nn.Linear(2, 2), Batch(torch.zeros(3, 2)))
    model = dc.find("rnn")(vocab=5, units=4)
    with pytest.raises(UsageError, match="one step only"):
        gradient_through_time(model, tokens(2, 1))
