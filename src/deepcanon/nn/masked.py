"""A linear layer of which some connections are cut."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class MaskedLinear(nn.Linear):
    r"""A linear layer whose weights count only where the mask is 1.

    .. math:: y = (M \odot W)\, x + b

    The mask, (outputs, inputs), follows from the arguments of the model, so it is not saved with the weights. A weight
    that does not count gets the gradient 0.

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


def sees(inputs: Tensor, outputs: Tensor, *, strictly: bool = False) -> Tensor:
    """The mask with which each output sees the inputs of its own degree or less, or ``strictly`` of less.

    Degrees are whole numbers, one per unit. Layers that keep to them let a unit of degree d see the values 1 to d only.

    >>> import torch
    >>> sees(torch.tensor([1, 2, 3]), torch.tensor([2, 1])).int()
    tensor([[1, 1, 0],
            [1, 0, 0]], dtype=torch.int32)
    """
    return inputs < outputs.unsqueeze(1) if strictly else inputs <= outputs.unsqueeze(1)
