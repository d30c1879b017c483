"""Multilayer perceptron (MLP)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from deepcanon.core import Labeled, Recipe
from deepcanon.core.checks import at_least, flat
from deepcanon.models._predictor import Predictor
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense
from deepcanon.nn.initialize import initialize as initialize_weights


class MLP(Predictor):
    r"""A feed-forward network of fully connected layers with an activation between them.

    Also known as: feed-forward network, fully connected network, dense network.

    .. math:: h_0 = x, \qquad h_l = \sigma(W_l h_{l-1} + b_l), \qquad f(x) = W_L h_{L-1} + b_L \qquad (1)

    With layers of widths :math:`D_0, \dots, D_L` it has :math:`\sum_l (D_{l-1} + 1) D_l` parameters. For classes,
    :math:`f` gives logits and the loss is the cross-entropy. For real targets, :math:`f` gives their means and the loss
    is the squared error; a sampled prediction has unit variance around the mean. With a head, :math:`f` gives
    the parameters of its distribution, one after the other, and the loss is the negative log-likelihood.

    With k ``pieces`` every hidden unit is the maximum of k linear maps, under the activation; with the activation
    "identity" these are maxout units.

    References:
        | Learning representations by back-propagating errors (Rumelhart et al., 1986),
          https://doi.org/10.1038/323533a0
        | Dropout: a simple way to prevent neural networks from overfitting (Srivastava et al., 2014),
          https://jmlr.org/papers/v15/srivastava14a.html
        | Maxout networks (Goodfellow et al., 2013), https://arxiv.org/abs/1302.4389

    Arguments:
        features: The number of features of an example.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        hidden: The widths of the hidden layers; without any the map is linear.
        activation: The activation :math:`\sigma` by name.
        dropout: The probability to drop a hidden unit in training.
        head: The distribution of real targets: "gaussian" with one learned scale, "heteroscedastic" with a scale that
            depends on x, "bernoulli" for multi-label targets of 0 or 1, or a univariate distribution of
            torch.distributions, such as "gumbel" or "student_t"; without one the loss is the squared error.
        initialize: The initialization by name with its options, such as "kaiming_normal" or "normal:std=0.1", as in
            deepcanon.nn.initialize; without one it is torch's own.
        pieces: The number of linear maps of which a hidden unit is the maximum.
    """

    recipe = Recipe(lr=2e-3, epochs=50)

    def __init__(
        self,
        features: int,
        classes: int | None = None,
        targets: int | None = None,
        hidden: tuple[int, ...] = (256,),
        activation: Activation = "relu",
        dropout: float = 0.0,
        head: str | None = None,
        initialize: str | None = None,
        pieces: int = 1,
    ) -> None:
        super().__init__()
        at_least(1, features=features)
        self.features = features
        outputs = self._outputs_for(classes, targets, head)
        self.net = dense(features, outputs, hidden, activation=activation, dropout=dropout, pieces=pieces)
        if initialize is not None:
            initialize_weights(self.net, initialize)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3, classes=2, hidden=(8,)), Labeled(x, (x.prod(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes), the means of the targets, (B, targets), or the inputs of the head."""
        outputs: Tensor = self.net(flat(x, self.features))  # eq. (1)
        return outputs
