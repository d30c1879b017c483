"""Stacks of restricted Boltzmann machines that are trained greedily, one layer after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Descend, Model, SemiBatch, Support, Terms, Turn, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.turn import B
from deepcanon.distributions.base_rates import log_odds
from deepcanon.models.energy._rbm import BinaryHarmonium, paced


class Greedy(Model[B]):
    r"""Machines of binary units, each of which learns to generate the hidden units of the one below.

    A machine with visible units :math:`h_{l-1}` and hidden units :math:`h_l` learns by contrastive divergence from
    samples of :math:`h_{l-1}` given the data, while all machines below it stay as they are. Where it is as wide as the
    one below was at its foot, it starts as its mirror image, which generates the same :math:`h_{l-1}`, and can only
    improve on it; where it is wider, its other units start with next to no weight. Of few labels and many examples
    without, all of the latter are learned from.

    References:
        | A Fast Learning Algorithm for Deep Belief Nets (Hinton et al., 2006),
          https://doi.org/10.1162/neco.2006.18.7.1527
    """

    def __init__(self, features: int, hidden: tuple[int, ...], gibbs_steps: int, chains: int) -> None:
        super().__init__()
        at_least(1, features=features)
        if not hidden:
            raise UsageError(f"{self.name()} has hidden layers, and none is asked for")
        self.features = features
        self.sizes = list(zip((features, *hidden), hidden, strict=False))
        self.layers = nn.ModuleList(BinaryHarmonium(*size, gibbs_steps, chains=chains) for size in self.sizes)
        self.__dict__["recipe"] = paced(self.recipe, hidden[0])

    @property
    def support(self) -> Support:
        return "binary"

    @abstractmethod
    def _up(self, x: Tensor, layers: int) -> list[Tensor]:
        """The visible units, and samples of so many hidden layers given them."""

    def _tie(self, number: int) -> None:
        """Bring what else depends on the weights of a layer in line with them, after each of its steps."""

    @torch.no_grad()
    def prepare(self, data: Iterable[B]) -> None:
        """Initialize the visible biases by the base rates of the data."""
        first = self._layer(0)
        first.origin.copy_(log_odds(map(_examples, data), self.features, self.name()))
        first.visible_bias.copy_(first.origin)

    def greedy_turns(self, until: float) -> list[Turn[B]]:
        """A turn for each layer, one after the other, in this share of the training."""
        count = len(self.layers)
        return [
            Descend(
                partial(self.layer_loss, number), self._own(number), name=f"layer_{number + 1}",
                share=(until * number / count, until * (number + 1) / count),
                start=partial(self._begin, number), gradient=partial(self.layer_gradient, number),
                after=partial(self._tie, number), lr=self._rate(number),
            )
            for number in range(count)
        ]  # fmt: skip

    def _rate(self, number: int) -> float:
        """The learning rate of a layer: lower where it has more units than the first.

        With their number grows how far a step moves the energy, which the chains must follow.
        """
        return self.recipe.lr * min(1.0, self.sizes[0][1] / self.sizes[number][1])

    def layer_loss(self, number: int, batch: B) -> Terms:
        """The contrastive divergence of one layer, given samples of the layers below."""
        below = Batch(self._up(_examples(batch).x, number)[-1])
        return {f"layer_{number + 1}": self._layer(number).loss(below)["contrastive_divergence"]}

    def layer_gradient(self, number: int, batch: B) -> Callable[[], Terms]:
        """The gradient of a layer's loss, by hand."""
        terms = self._layer(number).gradient(Batch(self._up(_examples(batch).x, number)[-1]))
        return lambda: {f"layer_{number + 1}": terms()["contrastive_divergence"]}

    def _layer(self, number: int) -> BinaryHarmonium:
        layer = self.layers[number]
        assert isinstance(layer, BinaryHarmonium)
        return layer

    def _own(self, number: int) -> list[nn.Parameter]:
        """The parameters of the turn of a layer."""
        return list(self.layers[number].parameters())

    @torch.no_grad()
    def _begin(self, number: int) -> None:
        """Start a layer where the one below has arrived: as its mirror image, or, if it is narrower, at its rates."""
        if number == 0:
            return
        below, layer = self._layer(number - 1), self._layer(number)
        layer.origin.copy_(below.chains.mean(0).logit(eps=0.01))
        layer.visible_bias.copy_(layer.origin)
        if layer.units >= below.width:
            layer.weight[:, : below.width] = below.weight.T
            layer.visible_bias.copy_(below.hidden_bias)
            layer.hidden_bias[: below.width] = below.visible_bias
        self._tie(number)


def _examples(batch: B) -> Batch:
    """The examples of a batch from which layers learn: of few labels, those without."""
    return Batch(batch.unlabeled if isinstance(batch, SemiBatch) else batch.x)
