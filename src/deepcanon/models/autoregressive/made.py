"""Masked autoencoder for distribution estimation (MADE)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self, get_args

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.distributions.base_rates import log_odds
from deepcanon.models.autoregressive._autoregressive import Autoregressive
from deepcanon.nn.activations import activation_layer
from deepcanon.nn.masked import MaskedLinear, autoregressive_mask, spread_degrees

Order = Literal["natural", "reversed", "shuffled"]
Elementwise = Literal["relu", "elu", "gelu", "tanh", "sigmoid"]
"""Elementwise activations; a softmax would make each unit depend on all others."""


class MADE(Autoregressive[Batch]):
    r"""An autoregressive model of binary data: an MLP whose weights are masked, so that each output is a conditional.

    Every unit has a degree m: a value its position in the ordering, 1 to D; a hidden unit a number from 1 to D - 1. A
    hidden unit is connected to units of its own degree or less, an output only to those of less. So in a net of any
    depth the output of degree m depends on the values of the degrees 1 to m - 1, and one pass gives all conditionals.

    .. math:: h = f((M \odot W)\, x + c), \qquad
              p(x_d = 1 \mid x_{<d}) = \sigma\bigl(b + (M' \odot V)\, h + (M'' \odot A)\, x\bigr)_d \qquad (1)

    .. math:: M_{kd} = [m_k \ge m_d], \qquad M'_{dk} = [m_d > m_k], \qquad M''_{de} = [m_d > m_e] \qquad (2)

    The degrees of the hidden units, which the paper draws at random, are spread evenly here. A sample costs as much as
    one pass: the units of a degree are final as soon as the values up to it are drawn, and each is computed once.

    On the fixed binarization of MNIST the paper (Germain et al., 2015) reports 88.04 nats per test image, averaged over
    32 masks. This trains one network on the same images::

        deepcanon train made --hidden 1000 --data binarized-mnist --lr 1e-3 --epochs 12 --threads 1 --watch nll

    The file of these data cannot be downloaded by name; docs/data.md says how to make it.

    References:
        | MADE: Masked Autoencoder for Distribution Estimation (Germain et al., 2015), https://arxiv.org/abs/1502.03509

    Arguments:
        features: The number of values :math:`D`.
        hidden: The widths of the hidden layers.
        order: The ordering of the values: "natural" as in the data, "reversed", or "shuffled" at random.
        activation: The activation of the hidden units by name.
    """

    recipe = Recipe(lr=3e-3, schedule="linear", batch_size=100, epochs=80)

    ordering: Tensor

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (500,),
        order: Order = "natural",
        activation: Elementwise = "relu",
    ) -> None:
        super().__init__()
        at_least(1, features=features)
        for width in hidden:
            at_least(1, hidden=width)
        one_of(get_args(Order), order=order)
        one_of(get_args(Elementwise), activation=activation)
        self.features = features
        self.activation = activation_layer(activation)
        ordering = torch.randperm(features) if order == "shuffled" else torch.arange(features)
        # The positions in the data of the first value of the ordering, of the second ...
        self.register_buffer("ordering", ordering.flip(0) if order == "reversed" else ordering)
        values = torch.arange(1, features + 1)
        self.degrees = [spread_degrees(features, width) for width in hidden]
        layers = zip([values, *self.degrees], self.degrees, strict=False)
        self.layers = nn.ModuleList(MaskedLinear(autoregressive_mask(*degrees)) for degrees in layers)  # eq. (2)
        last = torch.cat([*self.degrees[-1:], values])
        self.output = MaskedLinear(autoregressive_mask(last, values, strictly=True))  # M' and M'' of eq. (2)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(32, 6, generator=torch.Generator().manual_seed(0)).round()
        return cls(features=6, hidden=(8, 8), order="shuffled"), Batch(x)

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Initialize the output bias with the base rates of the data."""
        self.output.bias.copy_(log_odds(data, self.features, self.name())[self.ordering])

    def drawing_order(self) -> Iterable[int]:
        order: list[int] = self.ordering.tolist()
        return order

    def logits(self, x: Tensor) -> Tensor:
        x = flat(x, self.features)[:, self.ordering]  # in the ordering of the model
        h = x
        for layer in self.layers:
            h = self.activation(layer(h))
        logits: Tensor = self.output(torch.cat([h, x], 1) if self.layers else x)  # eq. (1)
        return logits[:, self.ordering.argsort()]

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        layers = [layer for layer in self.modules() if isinstance(layer, MaskedLinear)]
        weights, biases = [layer.masked_weight for layer in layers], [layer.bias for layer in layers]
        like = biases[-1]
        uniform = torch.rand(n, self.features, generator=generator, device=like.device, dtype=like.dtype)
        uniform = uniform[:, self.ordering]  # in the ordering of the model, as all that follows
        units = [uniform.new_zeros(n, layer.in_features) for layer in layers[1:]]  # before the last one also the values
        x = units[-1][:, -self.features :] if units else torch.zeros_like(uniform)
        steps = torch.arange(1, self.features + 1)
        ends = [torch.searchsorted(degrees, steps).tolist() for degrees in self.degrees]  # where degrees below d end
        for d in range(self.features):
            below = x
            for h, weight, bias, end in zip(units, weights, biases, ends, strict=False):
                new = slice(end[d - 1] if d else 0, end[d])  # the units whose last input was drawn just now
                h[:, new] = self.activation(torch.addmm(bias[new], below, weight[new].T))
                below = h
            logit = below @ weights[-1][d] + like[d]
            x[:, d] = (uniform[:, d] < logit.sigmoid()).to(x.dtype)
        return x[:, self.ordering.argsort()]
