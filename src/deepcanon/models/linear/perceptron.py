"""Perceptron."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Absorb, DataError, How, Labeled, Model, Recipe, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat, is_binary, one_of, only_classes
from deepcanon.nn.codes import UNDECIDED, Code, class_codes, decoded


class Perceptron(Model[Labeled]):
    r"""Linear threshold units, trained by the perceptron learning rule.

    Also known as: Rosenblatt's perceptron, single-layer perceptron, linear threshold unit.

    The weights of a unit change only at examples at which its output is wrong:

    .. math:: \hat y = \operatorname{sign}(w^\top x + b), \quad y = \pm 1, \qquad
              \hat y_n \neq y_n: \quad w \leftarrow w + y_n x_n, \quad b \leftarrow b + y_n \qquad (1)

    If a hyperplane through the origin of the inputs :math:`\tilde x = (x, 1)` separates the classes by a margin
    :math:`\gamma`, and no input is longer than :math:`R`, then it makes at most :math:`(R / \gamma)^2` errors and
    converges. If the classes are not linearly separable, it never converges: ``converged`` stays 0, and the weights at
    the end of training minimize nothing. The loss is the perceptron criterion, :math:`\max(0, -y_n (w^\top x_n + b))`;
    (1) is a subgradient step on it. It scales with the weights, so it does not measure the fit.

    Each of m units learns alone. What they mean together is their output code:

    - ``targets=m``: m labels of each example, each there or not (multi-label). Every pattern of outputs is an answer.
    - ``code="one-hot"``: a unit for each class, which separates it from all others. Where none or several are 1 the
      outputs are undecided.
    - ``code="binary"``: the bits of the number of a class, so that m units have :math:`2^m` patterns. Which class has
      which pattern matters: each unit must separate the classes with a 1 from those with a 0.

    Two classes have one unit. Where the outputs are the code :math:`c_k \in \{0, 1\}^m` of no class, ``predict`` takes
    the class whose code fits the scores best, which is the class of the outputs wherever they have one:

    .. math:: \hat k = \arg\max_k \; c_k^\top (W x + b) \qquad (2)

    References:
        | The perceptron: a probabilistic model for information storage and organization in the brain (Rosenblatt,
          1958), https://doi.org/10.1037/h0042519
        | On convergence proofs on perceptrons (Novikoff, 1962)
        | Solving multiclass learning problems via error-correcting output codes (Dietterich and Bakiri, 1995),
          https://doi.org/10.1613/jair.105

    Arguments:
        features: The number of features of an example.
        classes: The number of classes.
        targets: The number of labels of an example, zeros and ones; in place of classes.
        code: The output code of classes: "one-hot" or "binary".
    """

    recipe = Recipe(batch_size=1024, epochs=100)
    default_data = "moons"
    surrogate = True

    errors: Tensor
    converged: Tensor
    examples: Tensor
    seen: Tensor
    errors_before: Tensor

    def __init__(
        self, features: int, classes: int | None = None, targets: int | None = None, code: Code = "one-hot"
    ) -> None:
        super().__init__()
        at_least(1, features=features)
        self.features = features
        self.classes = classes
        self._codes: Tensor | None = None
        if classes is not None and targets is None:
            at_least(2, classes=classes)
            self._codes = class_codes(classes, code)
            outputs = self._codes.shape[1]
        elif targets is not None and classes is None:
            at_least(1, targets=targets)
            if code != "one-hot":
                raise UsageError(f"a code is for classes; each target has an output already (got code={code!r})")
            outputs = targets
        else:
            raise UsageError(f"perceptron needs either classes or targets (got classes={classes}, targets={targets})")
        self.weight = nn.Parameter(torch.zeros(outputs, features), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(outputs), requires_grad=False)
        self.register_buffer("errors", torch.tensor(0))  # all errors of all units made in training
        self.register_buffer("converged", torch.tensor(False))  # whether an epoch passed without an error
        self.register_buffer("examples", torch.tensor(0))  # the examples of an epoch
        self.register_buffer("seen", torch.tensor(0))  # the examples of this epoch so far
        self.register_buffer("errors_before", torch.tensor(0))  # the errors at the beginning of this epoch

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3, classes=2), Labeled(x, (x.sum(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The scores of the classes, (B, classes), the first of two being 0; or of the targets, (B, targets)."""
        scores = self._scores(flat(x, self.features))
        return scores if self._codes is None else scores @ self._codes.to(scores).T

    def outputs(self, x: Tensor) -> Tensor:
        """The zeros and ones of the units, (B, units)."""
        scores = self._scores(flat(x, self.features))
        return (scores > 0).to(scores.dtype)  # eq. (1)

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [Absorb(self.absorb)]

    def prepare(self, data: Iterable[Labeled]) -> None:
        self.examples.fill_(sum(len(batch) for batch in data))

    @torch.no_grad()
    def absorb(self, batch: Labeled) -> Terms:
        """Go through the examples one after the other and learn from each at which an output is wrong."""
        x = flat(batch.x, self.features).to(self.weight.dtype)
        signs = self._signs(batch.y)
        errors = sum(self._learn(unit, x, sign) for unit, sign in enumerate(signs.unbind(1)))
        self._count(len(x), errors)
        return {"errors": x.new_tensor(errors / signs.numel()), **self.loss(batch)}

    def loss(self, batch: Labeled) -> Terms:
        scores = self._scores(flat(batch.x, self.features))
        return {"criterion": (-self._signs(batch.y) * scores).clamp_min(0).sum(1).mean()}

    @torch.no_grad()
    def metrics(self, batch: Labeled) -> Terms:
        """The accuracy, the share of undecided outputs, and 1 if an epoch of the training passed without an error."""
        right = (self.predict(*batch.inputs) == batch.y).to(self.weight.dtype).mean()
        found = {"accuracy": right, "converged": self.converged.to(right)}
        if self._codes is None or len(self._codes) == 2:
            return found
        undecided = decoded(self.outputs(batch.x), self._codes.to(self.weight)) == UNDECIDED
        return {**found, "undecided": undecided.to(right).mean()}

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The predicted class, (B,), or the labels, (B, targets).

        The perceptron has no probabilities: in ``mean``, (B, classes), the class has 1.
        """
        one_of(("mode", "mean", "sample"), how=how)
        if self.classes is None:
            return self.outputs(inputs[0])
        scores = self(inputs[0])
        predicted = scores.argmax(-1)  # eq. (2)
        return nn.functional.one_hot(predicted, self.classes).to(scores.dtype) if how == "mean" else predicted

    def _scores(self, rows: Tensor) -> Tensor:
        return rows @ self.weight.T + self.bias

    def _signs(self, y: Tensor) -> Tensor:
        """What each unit should say, -1 or 1, (B, units)."""
        if self._codes is not None and self.classes is not None:
            only_classes(y, self.classes)
            return (2 * self._codes.to(self.weight) - 1)[y]
        if y.shape[1:] != self.bias.shape or not is_binary(y):
            span = "" if y.is_meta else f" from {y.min():.3g} to {y.max():.3g}"
            raise DataError(
                f"a perceptron of labels takes zeros and ones of the shape (B, {len(self.bias)}); got {tuple(y.shape)}"
                f"{span}; linear_regression predicts numbers"
            )
        return 2 * y.to(self.weight.dtype) - 1

    def _learn(self, unit: int, x: Tensor, sign: Tensor) -> int:
        """Rosenblatt's rule for one unit; the number of its errors."""
        weight, bias = self.weight[unit], self.bias[unit]
        errors, start = 0, 0
        while start < len(x):
            # Weights only change at an error, so all examples before the next error are classified at once.
            wrong = (sign[start:] * (x[start:] @ weight + bias) <= 0).nonzero()
            if not len(wrong):
                break
            start += int(wrong[0])
            weight.add_(sign[start] * x[start])  # eq. (1)
            bias.add_(sign[start])
            errors, start = errors + 1, start + 1
        return errors

    def _count(self, examples: int, errors: int) -> None:
        self.errors += errors
        self.seen += examples
        if self.seen >= self.examples:
            self.converged.copy_(self.errors == self.errors_before)
            self.errors_before.copy_(self.errors)
            self.seen.zero_()
