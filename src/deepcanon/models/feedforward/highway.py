"""Highway network."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Labeled, Recipe
from deepcanon.core.checks import at_least, flat
from deepcanon.models._predictor import Predictor
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.nn.connections import HighwayGate


class Highway(Predictor):
    r"""A deep feed-forward network with learned gates that carry the input of a layer past it.

    .. math:: h_0 = A x + a, \qquad h_l = t_l \odot \sigma(W_l h_{l-1} + b_l) + (1 - t_l) \odot h_{l-1}, \qquad
        t_l = \mathrm{sigmoid}(V_l h_{l-1} + c_l), \qquad f(x) = B h_L + b \qquad (1)

    The transform gates :math:`t_l` are initialized nearly shut, so that gradients reach the first layers of a deep net.
    With :math:`D` features, width :math:`H` and :math:`K` outputs it has :math:`(D + 1) H + 2 L (H + 1) H + (H + 1) K`
    parameters.

    References:
        | Highway networks (Srivastava et al., 2015), https://arxiv.org/abs/1505.00387
        | Training very deep networks (Srivastava et al., 2015), https://arxiv.org/abs/1507.06228

    Arguments:
        features: The number of features of an example.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        units: The width :math:`H` of all layers.
        layers: The number :math:`L` of layers with a gate.
        activation: The activation :math:`\sigma` by name.
        gate_bias: The initial :math:`c_l`; the lower, the more passes unchanged at first, and the deeper the net, the
            lower it should be.
        head: The distribution of real targets by name: "gaussian", "heteroscedastic", "bernoulli" or one of
            torch.distributions; without one the loss is the squared error.
    """

    recipe = Recipe(lr=1e-2, schedule="one_cycle", epochs=30)

    def __init__(
        self,
        features: int,
        classes: int | None = None,
        targets: int | None = None,
        units: int = 64,
        layers: int = 10,
        activation: Activation = "relu",
        gate_bias: float = -2.0,
        head: str | None = None,
    ) -> None:
        super().__init__()
        at_least(1, features=features, units=units, layers=layers)
        self.features = features
        outputs = self._outputs_for(classes, targets, head)
        self.entrance = nn.Linear(features, units)
        self.layers = nn.Sequential(
            *(
                HighwayGate(nn.Sequential(nn.Linear(units, units), activation_layer(activation)), units, gate_bias)
                for _ in range(layers)
            )
        )
        self.exit = nn.Linear(units, outputs)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3, classes=2, units=4, layers=3), Labeled(x, (x.prod(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes), the means of the targets, (B, targets), or the inputs of the head."""
        outputs: Tensor = self.exit(self.layers(self.entrance(flat(x, self.features))))  # eq. (1)
        return outputs
