"""Effect of penalties: a heavier penalty raises the loss.

Measured, of models that take a penalty (``l1``, ``l2``, ``penalty``): the loss on a batch with the penalty's weight a
hundred times as large, the weights of the model as they are; exact. A loss that falls has a penalty with the wrong
sign. Of plain modules: the part of the gradient of each weight matrix that does not pass through the outputs, at
weights multiplied at random; that of a sum of squares or of absolute values is a multiple of the weights or of their
signs, and alarmed where it is negative; exact. Li, Karpathy and Johnson, CS231n,
https://cs231n.github.io/neural-networks-3/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepcanon.core import Model
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.train.randomness import seed_all

STAGE, PLACE = "loss", 50

Gradients = tuple[Tensor | None, ...]

PENALTIES, HEAVIER, ROUNDING = ("l1", "l2", "penalty"), 100.0, 1e-6
FEWEST = 8
"""A matrix of fewer numbers is a multiple of anything."""
FITTED = 1e-3
"""What a gradient of a penalty leaves at most, where multiples of weights and signs are taken away from it."""


class Penalty(NamedTuple):
    """A penalty on a matrix by its gradient: so many times the weights, and so many times their signs."""

    squares: float
    signs: float
    multiple: float
    """The larger of the two, where each is measured by its share of the gradient."""

    def gradient(self, weight: Tensor) -> Tensor:
        return self.squares * weight + self.signs * weight.sign()

    def value(self, weight: Tensor) -> float:
        return float(0.5 * self.squares * weight.square().sum() + self.signs * weight.abs().sum())


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.ours is None:
        yield from _past_outputs(patient)
    else:
        yield from _by_argument(patient, patient.ours)


def _by_argument(patient: Patient, model: Model[Any]) -> Iterator[Diagnosis]:
    given = {name: model.hparams.get(name) for name in PENALTIES}
    weighed = {name: value for name, value in given.items() if _weight(value) > 0}
    if not weighed:
        raise Skip("there is no penalty with a weight")
    batch = patient.batch()
    for name, value in weighed.items():
        other = type(model)(**{**model.hparams, name: _times(value)})
        other.load_state_dict(model.state_dict())
        losses = []
        for each in (patient.twin(), other.train()):
            seed_all(0)
            with torch.no_grad():
                losses.append(float(patient.loss(each, batch)))
        change = losses[1] - losses[0]
        patient.note(**{f"{name}_raises_by": change})
        if change < -ROUNDING * abs(losses[0]):
            yield Diagnosis(
                cause="penalty with the wrong sign",
                evidence={"loss": losses[0], "with_a_heavier_penalty": losses[1]},
                advice="add the penalty to the loss, do not subtract it",
                where=name,
                confirmed_by="exact: the loss with a hundred times the weight",
            )


def _past_outputs(patient: Patient) -> Iterator[Diagnosis]:
    """The gradient that reaches the weights past the outputs, where it is that of a penalty."""
    penalties = penalties_of(patient)
    multiples = {name: each.multiple for name, each in penalties.items()}
    patient.note(penalized=len(multiples))
    wrong = {name: value for name, value in multiples.items() if value < 0}
    if wrong:
        yield Diagnosis(
            cause="penalty with the wrong sign",
            evidence={"multiple_of_the_weights": min(wrong.values()), "matrices": len(wrong)},
            advice="add the penalty to the loss, do not subtract it",
            where=next(iter(wrong)),
            confirmed_by="exact: what does not pass through the outputs is a negative multiple of the weights",
        )


def penalties_of(patient: Patient) -> dict[str, Penalty]:
    """The penalties on weight matrices that the loss of a plain module holds, by the names of the matrices."""
    model = patient.twin().eval()
    kept: list[Any] = []
    hook = model.register_forward_hook(lambda *call: kept.append(call[2]))
    loss = patient.loss(_scattered(model), patient.batch(32))
    hook.remove()
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    named = [(name, p) for name, p in trained if p.ndim >= 2 and p.numel() >= FEWEST]
    outputs = [each for output in kept for each in _tensors(output) if each.requires_grad]
    if not named or not outputs or not loss.requires_grad:
        raise Skip("the loss has no outputs that its gradient could pass through")
    weights = [p for _, p in named]
    whole: Gradients = torch.autograd.grad(loss, weights, allow_unused=True, retain_graph=True)
    slopes: Gradients = torch.autograd.grad(loss, outputs, allow_unused=True, retain_graph=True)
    heard = [(output, slope) for output, slope in zip(outputs, slopes, strict=True) if slope is not None]
    if not heard:
        raise Skip("the loss does not depend on the outputs")
    through: Gradients = torch.autograd.grad([o for o, _ in heard], weights, [s for _, s in heard], allow_unused=True)
    penalties = {}
    for (name, weight), one, other in zip(named, whole, through, strict=True):
        if one is None:
            continue
        direct = one.double() - (0.0 if other is None else other.double())
        if float(direct.norm()) > ROUNDING**0.5 * float(one.norm()):
            found = _fitted(direct, weight.detach().double())
            if found is not None:
                penalties[name] = found
    return penalties


@torch.no_grad()
def _scattered(model: torch.nn.Module) -> torch.nn.Module:
    """The model with its weights multiplied at random, so that no matrix is special, as an orthogonal one is."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim >= 2 and parameter.is_floating_point():
            parameter.mul_(0.5 + torch.rand(parameter.shape, generator=generator).to(parameter.dtype))
    return model


def _fitted(gradient: Tensor, weight: Tensor) -> Penalty | None:
    """The penalty that has this gradient; None if it is another function of the weights."""
    basis = torch.stack([weight.flatten(), weight.sign().flatten()], 1)
    found = torch.linalg.lstsq(basis, gradient.flatten().unsqueeze(1), driver="gelsd").solution
    rest = float((gradient.flatten() - (basis @ found).flatten()).norm())
    if not rest <= FITTED * float(gradient.norm()):
        return None
    squares, signs = map(float, found.flatten())
    leads = abs(squares) * float(weight.norm()) >= abs(signs) * weight.numel() ** 0.5
    return Penalty(squares, signs, squares if leads else signs)


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, tuple | list):
        for each in output:
            yield from _tensors(each)
    elif isinstance(output, dict):
        for each in output.values():
            yield from _tensors(each)


def _weight(value: Any) -> float:
    numbers = value if isinstance(value, tuple | list) else (value,)
    return max((float(each) for each in numbers if isinstance(each, int | float)), default=0.0)


def _times(value: Any) -> Any:
    return tuple(HEAVIER * each for each in value) if isinstance(value, tuple | list) else HEAVIER * value
