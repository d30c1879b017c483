"""What all models share that answer a question about x: classes or real targets."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, Distribution, Normal

from deepcanon.core import DataError, How, Labelled, Model, Terms, UsageError, draw
from deepcanon.nn.precision import full


class Predictor(Model[Labelled]):
    r"""A network whose ``forward`` gives the parameters of a distribution of the answer.

    With ``classes`` they are logits, (B, classes), and the loss is the cross-entropy. Without, they are the means of
    Gaussians of unit variance, (B, targets), and the loss is the squared error, summed over the targets; up to a
    constant and a factor of two that is minus the log-likelihood.
    """

    classes: int | None

    def loss(self, batch: Labelled) -> Terms:
        outputs = self._outputs(*batch.inputs)
        if self.classes is not None:
            return {"nll": nn.functional.cross_entropy(outputs, batch.y)}
        if batch.y.shape != outputs.shape:  # broadcasting (B,) against (B, 1) would compare everything with everything
            raise DataError(f"the targets must have the shape {tuple(outputs.shape)}, got {tuple(batch.y.shape)}")
        return {"mse": (outputs - batch.y).square().sum(-1).mean()}

    @torch.no_grad()
    def metrics(self, batch: Labelled) -> Terms:
        """Of classes: accuracy and log loss out of one pass, which is what takes time."""
        if self.classes is None:
            return super().metrics(batch)
        outputs = self._outputs(*batch.inputs)
        right = outputs.argmax(-1) == batch.y
        return {"accuracy": right.to(outputs.dtype).mean(), "nll": nn.functional.cross_entropy(outputs, batch.y)}

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """Of classes: the most probable one, (B,), the probabilities, (B, classes), or drawn ones, (B,).

        Of targets: the mean, which is also the mode, or draws around it with unit variance, (B, targets).
        """
        if how not in ("mode", "mean", "sample"):
            raise UsageError(f"how must be one of mode, mean, sample (got {how!r})")
        outputs = self._outputs(*inputs)
        if how == "sample":
            return draw(self._distribution(outputs), generator)
        if self.classes is None:
            return outputs
        return outputs.argmax(-1) if how == "mode" else outputs.softmax(-1)

    def _distribution(self, outputs: Tensor) -> Distribution:
        if self.classes is None:
            return Normal(outputs, 1.0, validate_args=False)
        return Categorical(logits=outputs, validate_args=False)

    def _outputs(self, *inputs: Tensor) -> Tensor:
        outputs: Tensor = self(*inputs)
        return full(outputs)
