"""Repairs: the changes that confirm a cause, each the cheapest that takes it away."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from deepcanon.diagnosis.patient import Patient
from deepcanon.diagnosis.trial import Change

LARGE = 5.0
"""Biases of a new network are smaller."""


@torch.no_grad()
def drawn_anew(model: nn.Module) -> None:
    """Draw all weights anew: those of layers by their own rule, others by that of He, biases as 0."""
    done: set[int] = set()
    for module in model.modules():
        reset = getattr(module, "reset_parameters", None)
        own = list(module.parameters(recurse=False))
        if callable(reset) and own and not isinstance(module, nn.Embedding):
            frozen = [p.detach().clone() for p in own if not p.requires_grad]
            reset()
            for parameter, before in zip([p for p in own if not p.requires_grad], frozen, strict=True):
                parameter.copy_(before)  # what is frozen on purpose may be trained already
            done |= {id(p) for p in own}
    for parameter in model.parameters():
        if id(parameter) in done or not parameter.requires_grad or not parameter.is_floating_point():
            continue
        if parameter.ndim >= 2:
            nn.init.normal_(parameter, std=math.sqrt(2.0 / max(1, parameter[0].numel())))


@torch.no_grad()
def by_he(model: nn.Module) -> None:
    """Draw the weights of linear layers and convolutions with a variance of 2 / inputs, biases as 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd) and module.weight.requires_grad:
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                module.bias.zero_()


@torch.no_grad()
def tamed(model: nn.Module) -> None:
    """Draw all weights anew, as matrices that enlarge nothing, however often they are applied."""
    drawn_anew(model)
    for parameter in model.parameters():
        if parameter.ndim == 2 and parameter.requires_grad and parameter.is_floating_point():
            parameter.div_(max(1.0, float(torch.linalg.matrix_norm(parameter, 2))))


def of_usual_scale(patient: Patient, biases: bool = True) -> bool:
    """Whether every matrix is of the scale that a new one has, within a factor of 3, and biases are small."""
    fresh = patient.twin()
    drawn_anew(fresh)
    for one, other in zip(patient.model.parameters(), fresh.parameters(), strict=True):
        if one.ndim < 2 or not one.requires_grad or not one.is_floating_point() or one.numel() < 2:
            continue
        here, usual = float(one.detach().double().std()), float(other.detach().double().std())
        if not (usual / 3 <= here <= 3 * usual):
            return False
    found = [p for p in patient.model.parameters() if p.ndim == 1 and p.requires_grad and p.numel()]
    return not biases or all(float(p.detach().abs().max()) < LARGE for p in found)


def no_dropout(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.__dict__["dropout"] = 0.0


def no_decay(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        if "weight_decay" in group:
            group["weight_decay"] = 0.0


def by_groups(model: nn.Module) -> None:
    """Normalize each example by itself in place of the batch."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, _BatchNorm):
                setattr(module, name, nn.GroupNorm(1, child.num_features))


def times(factor: float) -> Change:
    """The same training with another learning rate."""
    return Change(f"learning rate x {factor:g}", rate=factor)


FRESH = Change("with weights drawn anew", on_model=drawn_anew)
HE = Change("with weights drawn anew by He's rule", on_model=by_he)
TAME = Change("with weights drawn anew that enlarge nothing", on_model=tamed)
NO_DECAY = Change("without weight decay", on_optimizer=no_decay)
NO_DROPOUT = Change("without dropout", on_model=no_dropout)
"""Changes that need no argument."""
