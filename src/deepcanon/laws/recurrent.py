r"""The laws of recurrent layers: modules that are called as ``layer(x, state)`` and give outputs and the next state.

x is (T, B, inputs), or (B, T, inputs) where ``batch_first`` is set; the state is h, or the pair (h, c) of an LSTM, each
(layers, B, units). The output of a layer is its hidden state h, at every step. A layer with the names of torch's
weights is held to torch's equations: the reset gate of its GRU acts after the product with the hidden state,
:math:`r \odot (U h + b)`, where the paper (Cho et al., 2014) has :math:`U (r \odot h)`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import STEPS, answer, called, is_plain, widths
from deepcanon.laws.probe import TIGHT, distance, doubled, seeded, tensors_of

EXAMPLES = 3
PEERS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}


@law
def the_output_is_the_hidden_state(module: Any, batch: Batch) -> Measured | None:
    """The last output is the hidden state h that is handed on, not the cell state."""
    module, x = _prepared(module, batch)
    if getattr(module, "bidirectional", False) or getattr(module, "proj_size", 0):
        return None
    with torch.no_grad():
        output, state = module(x)
    last = output[:, -1] if getattr(module, "batch_first", False) else output[-1]
    gap = distance(last, _hidden(state)[-1])
    return gap, TIGHT, f"the output of the last step and the state h differ by {gap:.2g}"


@law
def a_sequence_can_be_read_in_parts(module: Any, batch: Batch) -> Measured | None:
    """Reading on from the state of the first steps gives the outputs of the whole sequence."""
    module, x = _prepared(module, batch)
    if getattr(module, "bidirectional", False):
        return None
    time = 1 if getattr(module, "batch_first", False) else 0
    begin, end = x.split([2, x.shape[time] - 2], time)
    with torch.no_grad():
        whole, last = module(x)
        first, state = module(begin)
        second, other = module(end, state)
    gap = max(distance(torch.cat([first, second], time), whole), distance(tensors_of(other), tensors_of(last)))
    return gap, TIGHT, f"{x.shape[time]} steps in two parts are off by {gap:.2g}"


@law
def the_future_is_not_seen(module: Any, batch: Batch) -> Measured | None:
    """Outputs do not depend on later inputs."""
    module, x = _prepared(module, batch)
    if getattr(module, "bidirectional", False):
        return None
    time = 1 if getattr(module, "batch_first", False) else 0
    other = x.clone()
    other.narrow(time, 2, x.shape[time] - 2).normal_(generator=seeded(1))
    with torch.no_grad():
        gap = distance(module(other)[0].narrow(time, 0, 2), module(x)[0].narrow(time, 0, 2))
    return gap, TIGHT, f"other inputs later on move the first outputs by {gap:.2g}"


@law
def every_part_of_the_state_matters(module: Any, batch: Batch) -> Measured:
    """The next state depends on the hidden state, through the gates, and on the cell state where there is one."""
    module, x = _prepared(module, batch)
    with torch.no_grad():
        _, state = module(x)
        healthy = tensors_of(module(x, state))
        parts, ignored = tensors_of(state), 0
        for i, part in enumerate(parts):
            changed = [*parts[:i], part + 0.5, *parts[i + 1 :]]
            found = tensors_of(module(x, tuple(changed) if isinstance(state, tuple) else changed[0]))
            ignored += distance(found, healthy) <= TIGHT
    return ignored, 0, f"{ignored} of {len(parts)} parts of the state change nothing"


@law
def gates_read_the_hidden_state(module: Any, batch: Batch) -> Measured | None:
    """The gates of an LSTM are driven by the input and the hidden state: another h alone gives another cell state."""
    module, x = _prepared(module, batch)
    with torch.no_grad():
        _, state = module(x)
        if not isinstance(state, tuple) or len(state) != 2:
            return None
        one = x[:, :1] if getattr(module, "batch_first", False) else x[:1]
        before, after = (module(one, (h, state[1]))[1][1] for h in (state[0], state[0] + 0.5))
    moved = distance(after, before)
    return float(moved <= TIGHT), 0, f"another hidden state moves the next cell state by {moved:.2g}"


@law
def the_numbers_are_those_of_torch(module: Any, batch: Batch) -> Measured | None:
    """A layer with the names of torch's weights has the outputs of torch's layer of that kind, gate by gate."""
    kind = next((peer for name, peer in PEERS.items() if called(module, f"{name}(Cell|Layers?)?")), None)
    own = module.state_dict()
    if kind is None or "weight_hh_l0" not in own or getattr(module, "bidirectional", False):
        return None
    module, x = _prepared(module, batch)
    own = module.state_dict()
    inputs, units = own["weight_ih_l0"].shape[1], own["weight_hh_l0"].shape[1]
    layers = sum(name.startswith("weight_hh_l") for name in own)
    first = bool(getattr(module, "batch_first", False))
    peer = kind(inputs, units, layers, bias="bias_ih_l0" in own, batch_first=first).double()
    if {name: part.shape for name, part in peer.state_dict().items()} != {k: part.shape for k, part in own.items()}:
        return None
    peer.load_state_dict(own)
    with torch.no_grad():
        gap = distance(tensors_of(module(x)), tensors_of(peer(x)))
    return gap, TIGHT, f"compared with torch's {kind.__name__} of the same weights, it is off by {gap:.2g}"


LAWS = (
    the_output_is_the_hidden_state,
    a_sequence_can_be_read_in_parts,
    the_future_is_not_seen,
    every_part_of_the_state_matters,
    gates_read_the_hidden_state,
    the_numbers_are_those_of_torch,
)


def check_recurrent(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of recurrent layers in any module that gives outputs and a state."""
    if not _gives_a_state(answer(module, batch.x)):
        raise UsageError(f"a recurrent layer gives (outputs, state) for x of {tuple(batch.x.shape)}, (T, B, inputs)")
    return outcomes(LAWS, module, batch)


def recognize_recurrent(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Sequences for a layer that is called an RNN, a GRU or an LSTM and hands a state on."""
    if not is_plain(module) or not called(module, "(RNN|GRU|LSTM)([A-Z][A-Za-z]*)?|Recurrent"):
        return None
    sizes = [STEPS, EXAMPLES] if not getattr(module, "batch_first", False) else [EXAMPLES, STEPS]
    tried = [torch.randn(*sizes, width, generator=seeded(0)) for width in widths(module)]
    for x in [batch.x] if batch is not None else tried:
        if _gives_a_state(answer(module, x)):
            return Batch(x)
    return None


def _gives_a_state(output: Any) -> bool:
    return isinstance(output, tuple) and len(output) == 2 and isinstance(output[0], Tensor) and output[0].ndim == 3


def _hidden(state: Any) -> Tensor:
    found: Tensor = state[0] if isinstance(state, tuple) else state
    return found if found.ndim == 3 else found.unsqueeze(0)


def _prepared(module: Any, batch: Batch) -> tuple[Any, Tensor]:
    module, batch = doubled(module, batch)
    return module, batch.x
