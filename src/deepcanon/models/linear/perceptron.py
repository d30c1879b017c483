"""Perceptron."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Absorb, How, Labeled, Model, Recipe, Terms, Turn
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.models.linear._two_classes import only_two, two_logits


class Perceptron(Model[Labeled]):
    r"""A linear threshold unit for two classes, trained by the perceptron learning rule.

    Also known as: Rosenblatt's perceptron, single-layer perceptron, linear threshold unit.

    Its weights change only at examples that it misclassifies:

    .. math:: \hat y = \operatorname{sign}(w^\top x + b), \quad y = \pm 1, \qquad
              \hat y_n \neq y_n: \quad w \leftarrow w + y_n x_n, \quad b \leftarrow b + y_n \qquad (1)

    If a hyperplane through the origin of the inputs :math:`\tilde x = (x, 1)` separates the classes by a margin
    :math:`\gamma`, and no input is longer than :math:`R`, then it makes at most :math:`(R / \gamma)^2` errors and
    converges. If the classes are not linearly separable, it never converges: ``converged`` stays 0, and the weights at
    the end of training minimize nothing. The loss is the perceptron criterion, :math:`\max(0, -y_n (w^\top x_n + b))`;
    (1) is a subgradient step on it. It scales with the weights, so it does not measure the fit.

    References:
        | The perceptron: a probabilistic model for information storage and organization in the brain (Rosenblatt,
          1958), https://doi.org/10.1037/h0042519
        | On convergence proofs on perceptrons (Novikoff, 1962)

    Arguments:
        features: The number of features of an example.
        classes: The number of classes, which is 2.
    """

    recipe = Recipe(batch_size=1024, epochs=100)
    surrogate = True

    errors: Tensor
    converged: Tensor
    examples: Tensor
    seen: Tensor
    errors_before: Tensor

    def __init__(self, features: int, classes: Literal[2] = 2) -> None:
        super().__init__()
        at_least(1, features=features)
        only_two(classes, "perceptron")
        self.features = features
        self.weight = nn.Parameter(torch.zeros(features), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.register_buffer("errors", torch.tensor(0))  # all errors made in training
        self.register_buffer("converged", torch.tensor(False))  # whether an epoch passed without an error
        self.register_buffer("examples", torch.tensor(0))  # the examples of an epoch
        self.register_buffer("seen", torch.tensor(0))  # the examples of this epoch so far
        self.register_buffer("errors_before", torch.tensor(0))  # the errors at the beginning of this epoch

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3), Labeled(x, (x.sum(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The scores of both classes, (B, 2): 0 for the first, and what is thresholded for the second."""
        return two_logits(self._score(flat(x, self.features)).unsqueeze(1))

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [Absorb(self.absorb)]

    def prepare(self, data: Iterable[Labeled]) -> None:
        self.examples.fill_(sum(len(batch) for batch in data))

    @torch.no_grad()
    def absorb(self, batch: Labeled) -> Terms:
        """Go through the examples one after the other and learn from each that is misclassified."""
        x = flat(batch.x, self.features).to(self.weight.dtype)
        sign = 2 * batch.y.to(x.dtype) - 1
        errors, start = 0, 0
        while start < len(x):
            # Weights only change at an error, so all examples before the next error are classified at once.
            wrong = (sign[start:] * self._score(x[start:]) <= 0).nonzero()
            if not len(wrong):
                break
            start += int(wrong[0])
            self.weight.add_(sign[start] * x[start])  # eq. (1)
            self.bias.add_(sign[start])
            errors, start = errors + 1, start + 1
        self._count(len(x), errors)
        return {"errors": x.new_tensor(errors / len(x)), **self.loss(batch)}

    def loss(self, batch: Labeled) -> Terms:
        score = self._score(flat(batch.x, self.features))
        return {"criterion": (-(2 * batch.y.to(score.dtype) - 1) * score).clamp_min(0).mean()}

    @torch.no_grad()
    def metrics(self, batch: Labeled) -> Terms:
        """The accuracy, and 1 if training has converged: if an epoch passed without an error."""
        right = self.predict(*batch.inputs) == batch.y
        return {"accuracy": right.to(self.weight.dtype).mean(), "converged": self.converged.to(self.weight.dtype)}

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The predicted class, (B,); the perceptron has no probabilities: in ``mean``, (B, 2), the class has 1."""
        one_of(("mode", "mean", "sample"), how=how)
        score = self._score(flat(inputs[0], self.features))
        predicted = (score > 0).long()  # eq. (1)
        return nn.functional.one_hot(predicted, 2).to(score.dtype) if how == "mean" else predicted

    def _score(self, rows: Tensor) -> Tensor:
        return rows @ self.weight + self.bias

    def _count(self, examples: int, errors: int) -> None:
        self.errors += errors
        self.seen += examples
        if self.seen >= self.examples:
            self.converged.copy_(self.errors == self.errors_before)
            self.errors_before.copy_(self.errors)
            self.seen.zero_()
