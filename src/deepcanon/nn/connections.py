"""Skip connections: wrappers that combine the output of a layer with its input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from deepcanon.core.checks import at_least, one_of

Combine = Literal["concat", "mean", "max", "attention"]


class Residual(nn.Module):
    r"""A residual connection: the output of a layer is added to its input.

    .. math:: y = x + f(x), \qquad \frac{\partial y}{\partial x} = I + \frac{\partial f}{\partial x}

    References:
        | Deep residual learning for image recognition (He et al., 2016), https://arxiv.org/abs/1512.03385

    Arguments:
        inner: The layer :math:`f`; its outputs have the shape of its inputs.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        update: Tensor = self.inner(x)
        return x + update


class Skip(nn.Module):
    r"""A skip connection: the input of a layer is combined with its output, over the last dimension.

    ``concat`` concatenates them, ``mean`` and ``max`` take the average or the maximum, and ``attention`` a weighted
    mean, with the attention weights of a learned query :math:`q`:

    .. math:: y = \alpha x + (1 - \alpha) f(x), \qquad
        (\alpha, 1 - \alpha) = \mathrm{softmax}\left(q^\top x / \sqrt{D}, q^\top f(x) / \sqrt{D}\right)

    Arguments:
        inner: The layer :math:`f`; but for ``concat`` its outputs have the shape of its inputs.
        combine: How input and output are combined: ``concat``, ``mean``, ``max`` or ``attention``.
        width: The size :math:`D` of the last dimension, which ``attention`` needs.
    """

    def __init__(self, inner: nn.Module, combine: Combine, width: int = 0) -> None:
        super().__init__()
        one_of(get_args(Combine), combine=combine)
        self.inner = inner
        self.combine = combine
        if combine == "attention":
            at_least(1, width=width)
            self.query = nn.Parameter(torch.zeros(width))  # at first both weights are 1/2

    def extra_repr(self) -> str:
        return f"combine={self.combine}"

    def forward(self, x: Tensor) -> Tensor:
        new: Tensor = self.inner(x)
        if self.combine == "concat":
            return torch.cat([x, new], dim=-1)
        if self.combine == "mean":
            return (x + new) / 2
        if self.combine == "max":
            return torch.maximum(x, new)
        both = torch.stack([x, new], dim=-2)  # (..., 2, D)
        weights: Tensor = (both @ self.query / len(self.query) ** 0.5).softmax(-1)
        return (weights.unsqueeze(-2) @ both).squeeze(-2)


class DenselyConnected(nn.Module):
    r"""Dense connections: each layer gets the concatenated outputs of all layers before it and the input.

    .. math:: h_l = f_l([x, h_1, \dots, h_{l-1}]), \qquad y = [x, h_1, \dots, h_L]

    References:
        | Densely connected convolutional networks (Huang et al., 2017), https://arxiv.org/abs/1608.06993

    Arguments:
        layers: The layers :math:`f_l`, each with as many inputs as all before it have together.
        dim: The dimension that is concatenated: -1 for rows of features, 1 for images.
    """

    def __init__(self, layers: Iterable[nn.Module], dim: int = -1) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=self.dim)
        return x


class HighwayGate(nn.Module):
    r"""A highway connection: a learned gate mixes, element by element, the output of a layer with its input.

    .. math:: y = t(x) \odot f(x) + (1 - t(x)) \odot x, \qquad t(x) = \mathrm{sigmoid}(W x + b)

    References:
        | Highway networks (Srivastava et al., 2015), https://arxiv.org/abs/1505.00387

    Arguments:
        inner: The layer :math:`f`; its outputs have the shape of its inputs.
        width: The size of the last dimension.
        gate_bias: The initial :math:`b`; below zero, the input passes at first.
    """

    def __init__(self, inner: nn.Module, width: int, gate_bias: float = -2.0) -> None:
        super().__init__()
        at_least(1, width=width)
        self.inner = inner
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, gate_bias)

    def forward(self, x: Tensor) -> Tensor:
        return x.lerp(self.inner(x), self.gate(x).sigmoid())
