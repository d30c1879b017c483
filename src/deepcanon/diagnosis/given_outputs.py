"""The loss of outputs that are given, by a criterion, a step of the user's own, or a model of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from deepcanon.core import AnyBatch
from deepcanon.diagnosis.patient import Patient


def loss_of_outputs(patient: Patient, batch: AnyBatch) -> Callable[[Any], Tensor]:
    """The loss of a batch as a function of the outputs of the model.

    Of a step or a model of ours, the forward pass of the model gives the outputs in place of its own, where these are
    of the same form; :class:`Unheard` is raised where none was asked for.
    """
    if patient.step is None and patient.ours is None and patient.criterion is not None:
        criterion, targets = patient.criterion, batch.x if batch.labels is None else batch.labels
        return lambda outputs: criterion(outputs, targets)
    model = patient.twin()

    def loss(outputs: Any) -> Tensor:
        heard = []

        def given(_: nn.Module, inputs: Any, own: Any) -> Any:
            if _form(own) != _form(outputs):
                return None
            heard.append(True)
            return outputs

        hook = model.register_forward_hook(given)
        try:
            found = patient.loss(model, batch)
        finally:
            hook.remove()
        if not heard:
            raise Unheard("the loss asks for no outputs of this form")
        return found

    return loss


class Unheard(ValueError):
    """The outputs that were given played no part in the loss."""


def _form(outputs: Any) -> Any:
    if isinstance(outputs, Tensor):
        return tuple(outputs.shape)
    if isinstance(outputs, dict):
        return {name: _form(each) for name, each in outputs.items()}
    return [_form(each) for each in outputs] if isinstance(outputs, tuple | list) else None
