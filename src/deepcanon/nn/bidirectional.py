"""Bidirectional recurrent layers: each reads a sequence forward and backward, and never its padding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout


class Bidirectional(nn.Module):
    r"""Stacked recurrent layers that read in both directions; each reads the outputs of both directions below it.

    .. math:: \overrightarrow{h}_t = r(\overrightarrow{h}_{t-1}, x_t), \qquad
              \overleftarrow{h}_t = r'(\overleftarrow{h}_{t+1}, x_t), \qquad
              h_t = (\overrightarrow{h}_t, \overleftarrow{h}_t) \qquad (1)

    Sequences of unequal length are reversed within their lengths, so that the backward direction begins at the last
    position that counts.

    References:
        | Bidirectional recurrent neural networks (Schuster and Paliwal, 1997), https://doi.org/10.1109/78.650093

    Arguments:
        layer: Makes a recurrent layer for so many inputs, from (T, B, inputs) to outputs (T, B, units) and a state.
        inputs: The number of input values at each step.
        units: The number of outputs of one direction.
        layers: The number of layers.
        dropout: The dropout probability between two layers.
    """

    def __init__(
        self, layer: Callable[[int], nn.Module], inputs: int, units: int, layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        widths = [inputs, *[2 * units] * (layers - 1)]
        self.units, self.dropout = units, dropout
        self.forward_layers = nn.ModuleList(layer(width) for width in widths)
        self.backward_layers = nn.ModuleList(layer(width) for width in widths)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The outputs of both directions side by side, (T, B, 2 units)."""
        for depth, (ahead, back) in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            if depth and self.dropout:
                x = dropout(x, self.dropout, self.training)
            backward = reversed_in_time(back(reversed_in_time(x, lengths))[0], lengths)
            x = torch.cat([ahead(x)[0], backward], 2)  # eq. (1)
        return x

    def last(self, outputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The outputs of each direction when it has read everything, (B, 2 units): at the end, and at the beginning."""
        return torch.cat([last_output(outputs[..., : self.units], lengths), outputs[0, :, self.units :]], 1)


def reversed_in_time(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Sequences (T, B, ...) in reversed order, each within its length; the padding stays where it is.

    >>> reversed_in_time(torch.arange(4).view(4, 1, 1), torch.tensor([3])).flatten()
    tensor([2, 1, 0, 3])
    """
    if lengths is None:
        return x.flip(0)
    steps = torch.arange(len(x), device=x.device).unsqueeze(1)  # (T, 1)
    source = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (T, B)
    return x.gather(0, source.view(*source.shape, *[1] * (x.ndim - 2)).expand_as(x))


def last_output(outputs: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Of outputs (T, B, units), that of each sequence at its last position, (B, units)."""
    if lengths is None:
        return outputs[-1]
    return outputs.gather(0, (lengths - 1).view(1, -1, 1).expand(1, -1, outputs.shape[2])).squeeze(0)
