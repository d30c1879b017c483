"""The loss of a model as a function of its weights alone, for the Hessian and the loss landscape."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from deepcanon.core import AnyBatch, Labeled, UsageError, drawing_from

Mode = Literal["eval", "train"]
"""Evaluation mode or training mode, for dropout and batch normalization."""


class Objective:
    r"""The loss :math:`L(\theta)` on one batch as a function of the weights, in double precision where possible.

    It is evaluated on a copy of the model. Its random numbers are the same at every call, so that :math:`L` is one
    function: in training mode, dropout drops the same units at every call and batch normalization takes the statistics
    of the batch.

    Arguments:
        model: The model; for a module without a ``loss``, the cross-entropy or the squared error of its output.
        batch: The examples.
        mode: "eval" or "train".
        seed: The seed of the random numbers in the loss.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> loss = Objective(layer, Labeled(torch.ones(1, 1), torch.zeros(1, 1)))
    >>> loss(torch.tensor([3.0]))
    tensor(9., dtype=torch.float64)
    """

    def __init__(self, model: nn.Module, batch: AnyBatch, mode: Mode = "eval", seed: int = 0) -> None:
        if mode not in ("eval", "train"):
            raise UsageError(f"mode must be eval or train (got {mode!r})")
        self._seed = seed
        self._asked = _Loss(copy.deepcopy(model)).train(mode == "train")
        self._batch = batch
        self._asked.double()
        self._batch = _double(batch)
        self.precision = torch.float64
        try:
            with torch.no_grad():
                self.at({})
        except RuntimeError:  # where precisions meet: the model itself casts to single precision
            self._asked, self._batch = _Loss(copy.deepcopy(model)).train(mode == "train"), batch
            self.precision = torch.float32
        named = {name.removeprefix("model."): weight for name, weight in self._asked.named_parameters()}
        buffers = {name.removeprefix("model."): buffer for name, buffer in self._asked.named_buffers()}
        self.state = {
            name: value.detach().clone() for name, value in (named | buffers).items() if value.is_floating_point()
        }
        self.parameters = {name: self.state[name] for name, weight in named.items() if weight.requires_grad}
        if not self.parameters:
            raise UsageError(f"{type(model).__name__} has no parameter that is trained, so its loss is a constant")

    state: dict[str, Tensor]
    """All parameters and real-valued buffers of the model by name; a tensor with two names has the first."""
    parameters: dict[str, Tensor]
    """The parameters that are trained."""

    @property
    def theta(self) -> Tensor:
        """The weights of the model as one vector."""
        return torch.cat([parameter.flatten() for parameter in self.parameters.values()])

    def __call__(self, theta: Tensor) -> Tensor:
        """The loss at these weights, given as one vector: a 0-d tensor that can be differentiated twice."""
        sizes = [parameter.numel() for parameter in self.parameters.values()]
        pieces = theta.to(self.precision).split(sizes)
        return self.at(
            {name: piece.view_as(old) for (name, old), piece in zip(self.parameters.items(), pieces, strict=True)}
        )

    def at(self, state: Mapping[str, Tensor]) -> Tensor:
        """The loss with these parameters or buffers; all others stay as they are."""
        entries = {name: buffer.clone() for name, buffer in self._asked.named_buffers()}
        entries |= {f"model.{name}": value for name, value in state.items()}
        random = Generator(self._batch.x.device).manual_seed(self._seed)
        with drawing_from(random), sdpa_kernel(SDPBackend.MATH):  # the only attention with a second derivative
            loss: Tensor = functional_call(self._asked, entries, (self._batch,))
        return loss


class _Loss(nn.Module):
    """A module whose ``forward`` is the loss of another one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: AnyBatch) -> Tensor:
        loss: Any = getattr(self.model, "loss", None)
        if callable(loss):
            return torch.stack([term.reshape(()) for term in loss(batch).values()]).sum()
        if not isinstance(batch, Labeled):
            raise UsageError(
                f"{type(self.model).__name__} has no loss, and without labels there is no default; "
                f"give it a batch of {Labeled.noun}, or a method loss(batch)"
            )
        output: Tensor = self.model(*batch.inputs)
        if batch.y.is_floating_point():
            return (output - batch.y.reshape(output.shape)).square().flatten(1).sum(1).mean()
        return cross_entropy(output, batch.y)


def _double(batch: AnyBatch) -> AnyBatch:
    tensors = {part.name: getattr(batch, part.name) for part in fields(batch)}
    real = {name: value for name, value in tensors.items() if isinstance(value, Tensor) and value.is_floating_point()}
    return replace(batch, **{name: value.double() for name, value in real.items()})
