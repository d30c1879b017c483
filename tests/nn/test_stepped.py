"""Layers that run step by step are torch's plain recurrent network, whatever they are driven by."""

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch
from deepcanon.laws import report
from deepcanon.laws.recurrent import check_recurrent
from deepcanon.nn.gru import GRULayers, ResetBeforeGRU
from deepcanon.nn.lstm import LSTMVariant
from deepcanon.nn.rnn import LinearRNN, RNNLayers
from deepcanon.nn.stepped import State, SteppedLayers, init_matrices, open_biases


class Tanh(SteppedLayers):
    """The plain recurrent network, in Python."""

    def step(self, layer: int, driven: Tensor, *state: Tensor) -> State:
        return (torch.addmm(driven, state[0], self.weight("weight_hh", layer).T).tanh(),)


def test_outputs_state_and_gradients_are_those_of_torch() -> None:
    torch.manual_seed(0)
    ours = Tanh(3, 5, 2, gates=1, parts=1).double()
    theirs = nn.RNN(3, 5, 2).double()
    with torch.no_grad():
        for name, weight in ours.named_parameters():
            theirs.get_parameter(name.replace("bias_", "bias_ih_")).copy_(weight)
        for layer in range(2):
            theirs.get_parameter(f"bias_hh_l{layer}").zero_()
    x, h = torch.randn(6, 4, 3).double(), torch.randn(2, 4, 5).double()
    for state in (None, h):
        found, (kept,) = ours(x, None if state is None else (state,))
        wanted, last = theirs(x, state)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
        torch.testing.assert_close(kept, last, rtol=0, atol=1e-12)
        gradients = [
            torch.autograd.grad(output.square().sum(), net.get_parameter("weight_hh_l0"), retain_graph=True)[0]
            for output, net in ((found, ours), (wanted, theirs))
        ]
        torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "layers",
    [GRULayers(3, 4, 2), ResetBeforeGRU(3, 4, 2), RNNLayers(3, 4, 2), LinearRNN(3, 4, 2), LSTMVariant(3, 4, 2)],
)
def test_layers_keep_the_laws_of_recurrent_ones(layers: nn.Module) -> None:
    found = check_recurrent(layers, Batch(torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(0))))
    assert all(outcome.holds for outcome in found), report(found)
    named = {outcome.law for outcome in found}
    assert {"a sequence can be read in parts", "every part of the state matters"} <= named
    assert ("the numbers are those of torch" in named) == isinstance(layers, nn.RNNBase)


def test_every_gate_has_an_orthogonal_matrix_and_open_biases_span_the_memory() -> None:
    torch.manual_seed(0)
    layers = nn.GRU(3, 6, 2)
    init_matrices(layers, 6)
    for gate in layers.get_parameter("weight_hh_l1").detach().split(6):
        torch.testing.assert_close(gate @ gate.T, torch.eye(6), rtol=0, atol=1e-5)
    assert float(layers.get_parameter("bias_ih_l0").detach().abs().max()) == 0
    assert open_biases(3, None).tolist() == [1, 1, 1]
    spans = open_biases(400, 50).exp()  # a gate that keeps a share f of its content does so for 1 / (1 - f) steps
    assert 1 <= float(spans.min()) < 2
    assert 47 < float(spans.max()) <= 49
