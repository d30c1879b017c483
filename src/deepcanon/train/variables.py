"""The variables of an optimizer: the parameters of a turn, or for some of them the coordinates that the turn names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deepcanon.core.coordinates import Coordinates


class Variables:
    """The variables that an optimizer steps on: ``listed`` has one for each parameter, and most are the parameters.

    Coordinates take the place of their parameters unless one of these is not among those that are trained.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], coordinates: Coordinates | None) -> None:
        self.listed = list(parameters)
        self.coordinates: Coordinates | None = None
        if coordinates is None:
            return
        places = {id(parameter): place for place, parameter in enumerate(parameters)}
        theirs = [coordinates.weight, coordinates.bias]
        if all(id(tensor) in places for tensor in theirs):
            self.coordinates = coordinates
            self.parameters = [parameters[places[id(tensor)]] for tensor in theirs]
            self.stand_ins = [nn.Parameter(parameter.detach().clone()) for parameter in self.parameters]
            for tensor, stand_in in zip(theirs, self.stand_ins, strict=True):
                self.listed[places[id(tensor)]] = stand_in

    @torch.no_grad()
    def read(self) -> None:
        """Take the values of the parameters."""
        if self.coordinates is not None:
            _copy(self.coordinates.coordinates_of(self.parameters), self.stand_ins)

    @torch.no_grad()
    def write(self) -> None:
        """Give the parameters the values at which the optimizer is."""
        if self.coordinates is not None:
            _copy(self.coordinates.values_at(self.stand_ins), self.parameters)

    @torch.no_grad()
    def read_gradients(self) -> None:
        """Take the gradients of the parameters."""
        if self.coordinates is not None:
            theirs = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
            for stand_in, gradient in zip(self.stand_ins, self.coordinates.gradient_of(theirs), strict=True):
                stand_in.grad = gradient


def _copy(values: Sequence[Tensor], into: Sequence[Tensor]) -> None:
    for value, tensor in zip(values, into, strict=True):
        tensor.copy_(value)
