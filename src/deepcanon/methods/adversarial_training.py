"""Adversarial training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from deepcanon.core import Labeled, Model, Terms, Turn, UsageError, methods_of
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._method import Method, descents

Attack = Literal["fgsm", "pgd"]


class AdversarialTraining(Method[Labeled]):
    r"""Training of a classifier or regressor on adversarial examples, the worst perturbations of its inputs.

    Also known as: robust optimization, FGSM training, PGD training.

    .. math:: \alpha\, \ell(x, y) + (1 - \alpha)\, \ell(x + \delta, y), \qquad
              \delta \approx \arg\max_{\lVert \delta \rVert_\infty \le \epsilon} \ell(x + \delta, y) \qquad (1)

    The fast gradient sign method (FGSM) takes one step of length :math:`\eta = \epsilon` from x; it finds the exact
    maximum for a linear classifier of two classes. Projected gradient descent (PGD) starts at a random point of the
    :math:`\ell_\infty` ball, takes smaller steps and projects each back onto the ball,

    .. math:: x + \delta \leftarrow \Pi_{\lVert \delta \rVert_\infty \le \epsilon}
              \bigl(x + \delta + \eta \operatorname{sign} \nabla_x \ell(x + \delta, y)\bigr). \qquad (2)

    No gradient flows through :math:`\delta`, and the model that is attacked is in eval mode, without dropout. The loss
    of held-out examples is the one without attack, and the metrics have the accuracy under PGD.

    References:
        | Explaining and Harnessing Adversarial Examples (Goodfellow et al., 2015), https://arxiv.org/abs/1412.6572
        | Towards Deep Learning Models Resistant to Adversarial Attacks (Madry et al., 2018),
          https://arxiv.org/abs/1706.06083

    Arguments:
        model: The classifier or regression; its own loss is attacked.
        epsilon: The radius :math:`\epsilon` of the ball, the largest perturbation of an input; at 0 there is none.
        attack: The fast gradient sign method, or projected gradient descent.
        clean: The weight :math:`\alpha` of the loss on the clean examples.
        iterations: The number of steps of projected gradient descent.
        low: The smallest value that an input may have, where there is one.
        high: The largest value that an input may have.
    """

    null: ClassVar[Mapping[str, Any]] = {"epsilon": 0.0}

    def __init__(
        self,
        model: Model[Any],
        epsilon: float = 0.1,
        attack: Attack = "fgsm",
        clean: float = 0.5,
        iterations: int = 7,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        super().__init__(model)
        if "predict" not in methods_of(model):
            raise UsageError(f"adversarial_training wraps a model with predict; {model.name()} has no predict")
        one_of(("fgsm", "pgd"), attack=attack)
        at_least(1, iterations=iterations)
        if epsilon < 0:
            raise UsageError(f"epsilon must be 0 or more (got {epsilon:g})")
        if not 0 <= clean < 1:
            raise UsageError(f"clean is a share of the loss, from 0 to below 1 (got {clean:g})")
        if low is not None and high is not None and low >= high:
            raise UsageError(f"low is to be below high (got low={low:g}, high={high:g})")
        self.epsilon, self.attack, self.clean, self.iterations = epsilon, attack, clean, iterations
        self.low, self.high = low, high

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model), batch

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [replace(turn, loss=partial(self._mixed, turn.loss)) for turn in descents(self.model, self.name())]

    def loss(self, batch: Labeled) -> Terms:
        return self._mixed(self.model.loss, batch)

    def metrics(self, batch: Labeled) -> Terms:
        """The wrapped model's and, for classes, ``robust_accuracy``, the accuracy under PGD, the stronger attack."""
        found = self.model.metrics(batch)
        if self.epsilon == 0 or batch.y.is_floating_point():
            return found
        predicted = self.model.predict(*self.attacked(batch, "pgd").inputs)  # type: ignore[operator]
        return {**found, "robust_accuracy": (predicted == batch.y).float().mean()}

    def attacked(self, batch: Labeled, attack: Attack | None = None) -> Labeled:
        """Adversarial examples: each input perturbed by at most ``epsilon`` so that the wrapped model's loss rises.

        They are found by the attack of the training, unless another one is given.
        """
        if self.epsilon == 0:
            return batch
        if not batch.x.is_floating_point():
            raise UsageError(f"only real inputs can be perturbed; the examples are of {batch.x.dtype}")
        with _eval_mode(self.model), torch.enable_grad():
            if (attack or self.attack) == "fgsm":
                return self._step(batch, batch.x, self.epsilon)
            changed = replace(batch, x=self._in_range(batch.x + self.epsilon * (2 * torch.rand_like(batch.x) - 1)))
            for _ in range(self.iterations):
                changed = self._step(changed, batch.x, 2.5 * self.epsilon / self.iterations)
            return changed

    def _mixed(self, loss: Callable[[Labeled], Terms], batch: Labeled) -> Terms:
        if self.epsilon == 0 or not self.training:
            return loss(batch)
        worst = sum(loss(self.attacked(batch)).values(), start=torch.zeros((), device=batch.x.device))
        clean = {name: self.clean * value for name, value in loss(batch).items()} if self.clean > 0 else {}
        return {**clean, "adversarial": (1 - self.clean) * worst}  # eq. (1)

    def _step(self, batch: Labeled, center: Tensor, length: float) -> Labeled:
        """One step of gradient ascent on the loss by the sign, projected onto the ball around the center."""
        x = batch.x.detach().requires_grad_()
        terms = self.model.loss(replace(batch, x=x))
        (gradient,) = torch.autograd.grad(sum(terms.values(), start=torch.zeros((), device=x.device)), x)
        step = x.detach() + length * gradient.sign()
        return replace(batch, x=self._in_range(center + (step - center).clamp(-self.epsilon, self.epsilon)))  # eq. (2)

    def _in_range(self, x: Tensor) -> Tensor:
        """``x`` clamped to the values that an input may have."""
        return x if self.low is None and self.high is None else x.clamp(self.low, self.high)


@contextmanager
def _eval_mode(model: Model[Any]) -> Iterator[None]:
    """Eval mode inside, with gradients; afterwards each module has the mode that it had before."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
