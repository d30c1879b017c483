"""Use of the input: the answer depends on the example.

Measured: the outputs for different examples in a copy whose layers are drawn anew, so that a start at zero or dead
units do not count, and their slope with respect to the inputs; exact. If the outputs are equal for every example and
the slope is 0, the forward pass does not use its input, and only the shares of the classes can be learned. Outputs that
are equal but for a slope, however small, come of many squashing layers, which is another fault. Of sequences it is
measured which time steps, and which tokens, have a slope in any example: where half of those that differ between
examples have none, and the training learns little, the forward pass reads the wrong ones, or, if outputs change with
them all the same, is cut from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, GraphBatch
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating
from deepcanon.diagnosis.repair import learns_little
from deepcanon.diagnosis.repairs import drawn_anew

STAGE, PLACE = "loss", 40

ROUNDING = 1e-14

HALF = 0.5
"""Where so many time steps, or tokens, are not used, it is not on purpose, if little is learned."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(32)
    if patient.task == "none" or isinstance(batch, GraphBatch) or len(batch) < 2:
        raise Skip("there is nothing to predict from each example")
    if bool((batch.x == batch.x[:1]).all()):
        raise Skip("these examples are alike")
    if not any(parameter.requires_grad for parameter in patient.model.parameters()):
        raise Skip("it has no weights to descend on, so that none can be drawn anew")
    model = patient.twin().double()  # through many layers little is left of the input, but not nothing
    if batch.x.is_floating_point():
        batch = replace(batch, x=batch.x.double())
    for _ in range(3):
        drawn_anew(model)
        with evaluating(model):
            output = patient.outputs(model, batch)
        if not isinstance(output, Tensor) or len(output) != len(batch) or not output.is_floating_point():
            raise Skip("there is no output for each example")
        spread = float((output - output[:1]).abs().max())
        patient.note(spread=spread)
        if spread > ROUNDING * float(output.abs().max()):
            yield from _of_sequences(patient, model, batch)
            return
    if not bool(torch.isfinite(output).all()):
        raise Skip("the outputs are not finite")
    if _has_slope(patient, model, batch):
        raise Skip("the input is used, but what it says is below rounding")
    yield Diagnosis(
        cause="input not used",
        evidence={"examples": len(batch), "largest_difference_of_outputs": spread},
        advice="follow the input through forward: it is lost, overwritten or multiplied by 0",
        where="forward",
        confirmed_by="exact: all outputs are equal, also with weights drawn anew",
    )


def _of_sequences(patient: Patient, model: nn.Module, batch: AnyBatch) -> Iterator[Diagnosis]:
    """Time steps, or tokens, that no output depends on, although they differ from example to example."""
    tokens = not batch.x.is_floating_point()
    if patient.ours is not None or patient.whole or batch.x.ndim != (2 if tokens else 3):
        return
    slopes = [slope for slope in _slopes(patient, model, batch) if slope.shape[:2] == batch.x.shape[:2]]
    if not slopes:
        return
    used = torch.stack([slope.flatten(2).any(2) for slope in slopes]).any(0)  # (B, T)
    differ = (batch.x != batch.x[:1]).flatten(2).any(2).any(0) if not tokens else (batch.x != batch.x[:1]).any(0)
    unused = differ & ~used.any(0)
    shares = {"time steps": float(unused.sum()) / max(1, int(differ.sum()))}
    if tokens:
        shares["tokens"] = 1 - len(torch.unique(batch.x[used])) / len(torch.unique(batch.x))
    patient.note(**{f"unused_{name.replace(' ', '_')}": share for name, share in shares.items()})
    name = max(shares, key=lambda each: shares[each])
    if shares[name] >= HALF and bool(used.any()) and learns_little(patient):
        if name == "time steps" and _are_read(patient, model, batch, unused):
            yield Diagnosis(
                cause="detached graph",
                evidence={"share_without_gradient": shares[name]},
                advice="leave out detach(), .data and no_grad() between the steps of a sequence",
                where="most time steps",
                confirmed_by="exact: outputs depend on these time steps, and have no slope there",
            )
            return
        yield Diagnosis(
            cause=f"input not used: {'mask' if name == 'tokens' else 'time step'}",
            evidence={"unused_share": shares[name]},
            advice="check the mask, and which step of the sequence is read out",
            where=f"most {name}",
            confirmed_by=f"exact: no output has a slope at these {name}, also with weights drawn anew",
        )


def _are_read(patient: Patient, model: nn.Module, batch: AnyBatch, places: Tensor) -> bool:
    """Whether outputs change if the values at these time steps are those of other examples."""
    other = batch.x.clone()
    other[:, places] = batch.x.roll(1, 0)[:, places]
    with evaluating(model):
        one, two = (patient.outputs(model, replace(batch, x=x)) for x in (batch.x, other))
    return not torch.equal(one, two)


def _has_slope(patient: Patient, model: nn.Module, batch: AnyBatch) -> bool:
    """Whether the outputs have a slope with respect to the inputs, or to what they are embedded as."""
    return any(bool(slope.any()) for slope in _slopes(patient, model, batch))


def _slopes(patient: Patient, model: nn.Module, batch: AnyBatch) -> list[Tensor]:
    """The slopes of the outputs with respect to the inputs, or to what they are embedded as."""
    places: list[Tensor] = []
    hooks = [
        module.register_forward_hook(lambda _, inputs, output: places.append(output))
        for module in model.modules()
        if isinstance(module, nn.Embedding)
    ]
    if batch.x.is_floating_point():
        places.append(batch.x.detach().requires_grad_())
        batch = replace(batch, x=places[0])
    with torch.enable_grad():
        output = patient.outputs(model.eval(), batch)
    for hook in hooks:
        hook.remove()
    if not places or not output.requires_grad:
        return []
    slopes = torch.autograd.grad(output.square().sum(), places, allow_unused=True)
    return [slope for slope in slopes if slope is not None]
