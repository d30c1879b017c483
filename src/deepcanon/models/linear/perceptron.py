"""The perceptron with the rule by which it learns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Absorb, How, Labeled, Model, Recipe, Terms, Turn
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.models.linear._two_classes import only_two, two_logits


class Perceptron(Model[Labeled]):
    r"""A threshold unit of two classes that changes its weights only when it errs.

    .. math:: \hat y = \operatorname{sign}(w^\top x + b), \quad y = \pm 1, \qquad
              \hat y_n \neq y_n: \quad w \leftarrow w + y_n x_n, \quad b \leftarrow b + y_n \qquad (1)

    If a plane through the origin of the inputs :math:`\tilde x = (x, 1)` separates the classes by a margin
    :math:`\gamma`, all inputs being no longer than :math:`R`, then it errs at most :math:`(R / \gamma)^2` times, and
    from then on never. If none does, it errs for ever: ``converged`` stays 0, and where the weights are when training
    ends is no optimum of anything. The loss, :math:`\max(0, -y_n (w^\top x_n + b))`, is the criterion of which (1) is
    a subgradient step; it scales with the weights, so it does not measure the fit.

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
        self.register_buffer("errors", torch.tensor(0))  # all that were made in training
        self.register_buffer("converged", torch.tensor(False))  # whether an epoch passed without any
        self.register_buffer("examples", torch.tensor(0))  # that make an epoch
        self.register_buffer("seen", torch.tensor(0))  # of this epoch
        self.register_buffer("errors_before", torch.tensor(0))  # at the beginning of this epoch

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3), Labeled(x, (x.sum(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The inner products that the threshold sees, as the lead of the second class: (B, 2), of which one is 0."""
        return two_logits(self._lead(flat(x, self.features)).unsqueeze(1))

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [Absorb(self.absorb)]

    def prepare(self, data: Iterable[Labeled]) -> None:
        self.examples.fill_(sum(len(batch) for batch in data))

    @torch.no_grad()
    def absorb(self, batch: Labeled) -> Terms:
        """Go through the examples one after the other and learn from each that is answered wrongly."""
        x = flat(batch.x, self.features).to(self.weight.dtype)
        sign = 2 * batch.y.to(x.dtype) - 1
        errors, place = 0, 0
        while place < len(x):
            # Weights only change at an error, so all examples before the next one are judged at once.
            wrong = (sign[place:] * self._lead(x[place:]) <= 0).nonzero()
            if not len(wrong):
                break
            place += int(wrong[0])
            self.weight.add_(sign[place] * x[place])  # eq. (1)
            self.bias.add_(sign[place])
            errors, place = errors + 1, place + 1
        self._count(len(x), errors)
        return {"errors": x.new_tensor(errors / len(x)), **self.loss(batch)}

    def loss(self, batch: Labeled) -> Terms:
        lead = self._lead(flat(batch.x, self.features))
        return {"criterion": (-(2 * batch.y.to(lead.dtype) - 1) * lead).clamp_min(0).mean()}

    @torch.no_grad()
    def metrics(self, batch: Labeled) -> Terms:
        """The accuracy, and 1 if training came to an end: if an epoch passed without an error."""
        right = self.predict(*batch.inputs) == batch.y
        return {"accuracy": right.to(self.weight.dtype).mean(), "converged": self.converged.to(self.weight.dtype)}

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The class, (B,), of which it is always certain: as ``mean``, (B, 2), it has the probability 1."""
        one_of(("mode", "mean", "sample"), how=how)
        lead = self._lead(flat(inputs[0], self.features))
        answer = (lead > 0).long()
        return nn.functional.one_hot(answer, 2).to(lead.dtype) if how == "mean" else answer

    def _lead(self, rows: Tensor) -> Tensor:
        return rows @ self.weight + self.bias

    def _count(self, examples: int, errors: int) -> None:
        self.errors += errors
        self.seen += examples
        if self.seen >= self.examples:
            self.converged.copy_(self.errors == self.errors_before)
            self.errors_before.copy_(self.errors)
            self.seen.zero_()
