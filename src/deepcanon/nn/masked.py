"""Masked linear layer, and the masks of autoregressive networks."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class MaskedLinear(nn.Linear):
    r"""A linear layer whose weights are multiplied by a binary mask.

    .. math:: y = (M \odot W)\, x + b

    The mask, (outputs, inputs), follows from the arguments of the model, so it is not saved with the weights. A masked
    weight gets the gradient 0.

    References:
        | MADE: Masked Autoencoder for Distribution Estimation (Germain et al., 2015), https://arxiv.org/abs/1502.03509

    >>> import torch
    >>> layer = MaskedLinear(torch.tensor([[True, False]]))
    >>> bool(layer(torch.tensor([[1.0, 2.0]])) == layer(torch.tensor([[1.0, 5.0]])))
    True
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        outputs, inputs = mask.shape
        super().__init__(inputs, outputs)
        self.register_buffer("mask", mask.to(self.weight.dtype), persistent=False)

    @property
    def masked_weight(self) -> Tensor:
        return self.mask * self.weight

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.masked_weight, self.bias)


def autoregressive_mask(inputs: Tensor, outputs: Tensor, *, strictly: bool = False) -> Tensor:
    """The mask that connects each output to the inputs of its own degree or less, or ``strictly`` of less.

    Degrees are integers, one per unit. With these masks a unit of degree d depends on the values 1 to d only.

    >>> import torch
    >>> autoregressive_mask(torch.tensor([1, 2, 3]), torch.tensor([2, 1])).int()
    tensor([[1, 1, 0],
            [1, 0, 0]], dtype=torch.int32)
    """
    return inputs < outputs.unsqueeze(1) if strictly else inputs <= outputs.unsqueeze(1)
