"""Deep belief network with supervised fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Descend, Labeled, Recipe, Turn, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.models._predictor import Predictor
from deepcanon.models.energy._greedy import Greedy
from deepcanon.models.energy._rbm import bernoulli


class DBNClassifier(Greedy[Labeled], Predictor):
    r"""A classifier whose hidden layers begin as a stack of restricted Boltzmann machines, trained without labels.

    Also known as: DBN-DNN, generatively pre-trained deep network.

    .. math:: h_0 = x, \qquad h_l = \sigma(c_l + W_l^\top h_{l-1}), \qquad f(x) = A h_L + a \qquad (1)

    First each layer is trained as a machine of its own, with the samples of the one below as its data, of which
    :math:`h_l` in (1) are the probabilities of its hidden units. Then the layers and a linear map on top of them, which
    starts at 0, are fine-tuned together by the cross-entropy of the classes. From random weights a deep network of
    sigmoid units learns slowly, since its gradients vanish; from these it has features of the data to begin with. Where
    only few examples have labels (``digits:binary:labels=10``), the layers learn from those that have none.

    References:
        | A Fast Learning Algorithm for Deep Belief Nets (Hinton et al., 2006),
          https://doi.org/10.1162/neco.2006.18.7.1527
        | Why Does Unsupervised Pre-training Help Deep Learning? (Erhan et al., 2010),
          https://jmlr.org/papers/v11/erhan10a.html

    Arguments:
        features: The number of visible units.
        classes: The number of classes.
        hidden: The numbers of hidden units, from the lowest layer to the top.
        gibbs_steps: The number of Gibbs steps of the chains between two steps of learning.
        chains: The number of persistent chains of each layer.
        pretraining: The share of the training that goes to the layers without labels; with 0 all weights begin small
            and random.
    """

    recipe = Recipe(optimizer="sgd", lr=0.3, schedule="linear", batch_size=50, epochs=60)

    FINE_TUNING_RATE = 1e-2
    """The learning rate of Adam, which fine-tunes."""

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: tuple[int, ...] = (100, 100),
        gibbs_steps: int = 1,
        chains: int = 100,
        pretraining: float = 0.5,
    ) -> None:
        if not 0 <= pretraining < 1:
            raise UsageError(f"pretraining is a share of the training, from 0 to below 1 (got {pretraining:g})")
        at_least(2, classes=classes)
        super().__init__(features, hidden, gibbs_steps, chains)
        self.classes, self.pretraining = classes, pretraining
        self.head = nn.Linear(hidden[-1], classes)  # A and a
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.rand(32, 5, generator=torch.Generator().manual_seed(0)).round()
        return cls(features=5, classes=2, hidden=(4, 3), chains=16), Labeled(x, (x.sum(1) > 2).long())

    def turns(self) -> Sequence[Turn[Labeled]]:
        machines = [self._layer(number) for number in range(len(self.layers))]
        layers = [each for machine in machines for each in (machine.weight, machine.hidden_bias)]
        tuned = Descend(
            self.loss, [*layers, *self.head.parameters()], name="fine_tuning", share=(self.pretraining, 1.0),
            optimizer="adam", lr=self.FINE_TUNING_RATE,
        )  # fmt: skip
        return [*self.greedy_turns(self.pretraining), tuned] if self.pretraining else [tuned]

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes)."""
        logits: Tensor = self.head(self.encode(x))
        return logits

    def encode(self, x: Tensor) -> Tensor:
        """The probability of each unit of the top layer to be on, (B, units), layer by layer from means."""
        means = flat(x, self.features)
        for number in range(len(self.layers)):
            means = self._layer(number).encode(means)  # eq. (1)
        return means

    @torch.no_grad()
    def _up(self, x: Tensor, layers: int) -> list[Tensor]:
        states = [flat(x, self.features)]
        for number in range(layers):
            states.append(bernoulli(self._layer(number).encode(states[-1])))
        return states
