"""Output layers keep their laws; what is planted in them is found."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from deepcanon import laws
from deepcanon.core import Labeled, UsageError
from deepcanon.nn import FullSoftmax, HierarchicalSoftmax, ImportanceSampling, NoiseContrastive, OutputLayer
from deepcanon.nn.output_by_name import OUTPUT_LAYERS, output_layer

COUNTS = torch.tensor([50, 20, 9, 4, 2, 2, 1])


def layer(cls: type[OutputLayer] | str) -> OutputLayer:
    torch.manual_seed(0)
    made = output_layer(cls, 5, len(COUNTS)) if isinstance(cls, str) else cls(5, len(COUNTS))
    made.follow(COUNTS)
    if made.samples is not None:
        made.samples = 3
    return made


def failing(module: OutputLayer) -> set[str]:
    return {outcome.law for outcome in laws.check(module) if not outcome.holds}


@pytest.mark.parametrize("name", [*OUTPUT_LAYERS, "hierarchical:tree=balanced"])
def test_all_layers_keep_the_laws(name: str) -> None:
    module = layer(name)
    assert laws.kinds_of(module)[0] == "output_layer"
    assert failing(module) == set()


class UniformNoise(ImportanceSampling):
    """The noise term of the softmax gradient by uniform draws, in place of draws from p."""

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        noise = torch.arange(self.classes) if self.samples is None else torch.randint(self.classes, (self.samples,))
        return self._scores_of(h, noise).mean(1) - self._true_scores(h, y)


class ForgottenWeights(ImportanceSampling):
    """Importance sampling without the weights 1 / q."""

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        noise, _ = self._noise()
        return self._scores_of(h, noise).logsumexp(1) - self._true_scores(h, y)


class ForgottenNoise(NoiseContrastive):
    """Noise-contrastive estimation whose true classes lack log k q."""

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        noise, share = self._noise()
        negative = logsigmoid(self._offset(noise) - self._scores_of(h, noise))
        return -logsigmoid(self._true_scores(h, y)) - self.negatives * (negative @ share)


class OtherNoise(NoiseContrastive):
    """Noise that is drawn uniformly and counted as drawn by the counts."""

    def follow(self, counts: Tensor) -> None:
        super().follow(counts)
        self.steps.copy_(torch.full_like(self.steps, 1 / len(counts)).cumsum(0))


class LostSign(HierarchicalSoftmax):
    """A tree of which every node sends the same share to both children."""

    def _plant(self) -> None:
        super()._plant()
        self.sides = self.sides.abs()


class OneBranch(HierarchicalSoftmax):
    """A tree in which two classes share one leaf."""

    def _plant(self) -> None:
        super()._plant()
        self.nodes[1], self.sides[1] = self.nodes[0], self.sides[0]


class SummedNats(FullSoftmax):
    def nats(self, h: Tensor, y: Tensor) -> Tensor:
        return super().nats(h, y).mean().expand(y.shape)


ONE, NATS = "probabilities sum to one", "nats are those of the probabilities"
LIMIT, DRAWS = "the gradient tends to that of the nats", "draws have the expectation of all classes"


@pytest.mark.parametrize(
    ("mutant", "broken"),
    [
        (UniformNoise, LIMIT),
        (ForgottenWeights, DRAWS),
        (ForgottenNoise, LIMIT),
        (OtherNoise, DRAWS),
        (LostSign, ONE),
        (OneBranch, ONE),
        (SummedNats, NATS),
    ],
)
def test_a_fault_is_found(mutant: type[OutputLayer], broken: str) -> None:
    assert broken in failing(layer(mutant))


def test_uniform_noise_gives_every_class_the_weight_of_one_in_all() -> None:
    """The gradient by the scores: of a softmax p(c), of uniform noise 1 / C, however many are drawn."""
    module = layer(UniformNoise)
    assert isinstance(module, UniformNoise)
    module.samples = None
    h, y = torch.randn(1, 5), torch.tensor([2])
    (slope,) = torch.autograd.grad(module.loss(h, y).sum(), [module.scores.bias])
    torch.testing.assert_close(slope, torch.full((7,), 1 / 7) - torch.eye(7)[2])
    (slope,) = torch.autograd.grad(module.nats(h, y).sum(), [module.scores.bias])
    torch.testing.assert_close(slope, module.log_probs(h).exp().squeeze(0) - torch.eye(7)[2])


def test_examples_of_other_shapes_are_refused() -> None:
    with pytest.raises(UsageError, match="output layers have log_probs"):
        laws.check((torch.nn.Linear(3, 2), Labeled(torch.zeros(2, 3), torch.tensor([0, 1]))), "output_layer")
