"""Supervised models: the base class of classifiers and regressors."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, Distribution, Normal

from deepcanon.core import DataError, How, Labeled, Model, Terms, UsageError, draw, eval_mode
from deepcanon.core.checks import at_least, only_classes
from deepcanon.core.precision import full
from deepcanon.distributions.heads import Head, head_layer


class Predictor(Model[Labeled]):
    r"""A supervised model: ``forward`` gives the parameters of a distribution of the labels or targets.

    With ``classes`` they are logits, (B, classes), and the loss is the cross-entropy. Without, they are the means of
    Gaussians of unit variance, (B, targets), and the loss is the squared error, summed over the targets; up to a
    constant and a factor of two that is the negative log-likelihood. With an ``output_head``, they are its
    inputs, and the loss is the negative log-likelihood of its distribution.
    """

    classes: int | None

    def __init__(self) -> None:
        super().__init__()
        self.output_head: Head | None = None

    def prepare(self, data: Iterable[Labeled]) -> None:
        """Refuse targets outside the support of the head before training."""
        if self.output_head is None:
            return
        for batch in data:
            self._check_targets(batch)

    def loss(self, batch: Labeled) -> Terms:
        return self._loss_of(self._outputs(*batch.inputs), batch)

    def loss_and_metrics(self, batch: Labeled) -> tuple[Terms, Terms]:
        outputs = self._outputs(*batch.inputs)
        terms = self._loss_of(outputs, batch)
        return terms, self._metrics_of(outputs.detach(), terms, batch)

    @torch.no_grad()
    def metrics(self, batch: Labeled) -> Terms:
        """For classes: accuracy and negative log-likelihood; for targets the errors of the mean."""
        return self.loss_and_metrics(batch)[1]

    def _loss_of(self, outputs: Tensor, batch: Labeled) -> Terms:
        """The loss of these outputs."""
        if self.classes is not None:
            return {"nll": nn.functional.cross_entropy(outputs, batch.y)}
        if self.output_head is not None:
            distribution = self._distribution(outputs)
            if batch.y.shape != distribution.batch_shape + distribution.event_shape:
                wanted = tuple(distribution.batch_shape + distribution.event_shape)
                raise DataError(f"the targets must have the shape {wanted}, got {tuple(batch.y.shape)}")
            return {"nll": -distribution.log_prob(batch.y).mean()}
        if batch.y.shape != outputs.shape:  # broadcasting (B,) against (B, 1) would compare everything with everything
            raise DataError(f"the targets must have the shape {tuple(outputs.shape)}, got {tuple(batch.y.shape)}")
        return {"mse": (outputs - batch.y).square().sum(-1).mean()}

    def _metrics_of(self, outputs: Tensor, terms: Terms, batch: Labeled) -> Terms:
        """The metrics of these outputs, which have this loss."""
        if self.output_head is not None:
            return terms
        if self.classes is None:
            error = outputs - batch.y
            return {"mse": error.square().sum(-1).mean(), "mae": error.abs().sum(-1).mean()}
        right = outputs.argmax(-1) == batch.y
        return {"accuracy": right.to(outputs.dtype).mean(), "nll": terms["nll"]}

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """For classes: the most probable one, (B,), the probabilities, (B, classes), or samples, (B,).

        For targets: the mean, which is also the mode, or samples around it with unit variance, (B, targets); with a
        head, the mode, mean or samples of its distribution.
        """
        if how not in ("mode", "mean", "sample"):
            raise UsageError(f"how must be one of mode, mean, sample (got {how!r})")
        outputs = self._outputs(*inputs)
        if how == "sample":
            return draw(self._distribution(outputs), generator)
        if self.output_head is not None:
            return _center(self._distribution(outputs), how)
        if self.classes is None:
            return outputs
        return outputs.argmax(-1) if how == "mode" else outputs.softmax(-1)

    def _outputs_for(self, classes: int | None, targets: int | None, head: str | None) -> int:
        """The number of outputs that the network needs for classes, or for targets with a head or without."""
        self.classes = classes
        if classes is not None and targets is None:
            at_least(2, classes=classes)
            if head is not None:
                raise UsageError(f"a head is for real targets; classes have logits already (got head={head!r})")
            return classes
        if targets is not None and classes is None:
            at_least(1, targets=targets)
            if head is None:
                return targets
            self.output_head = head_layer(head)
            return targets * self.output_head.numbers
        raise UsageError(
            f"{type(self).__name__} needs either classes or targets (got classes={classes}, targets={targets})"
        )

    def _check_targets(self, batch: Labeled, counted: Tensor | None = None) -> None:
        """Refuse classes that the model does not have, and targets outside the support of the head.

        In sequences, only the positions that are counted are checked.
        """
        if self.classes is not None:
            only_classes(batch.y if counted is None else batch.y[counted], self.classes)
        if self.output_head is None or batch.y.is_meta:
            return
        with eval_mode(self):  # so that batch normalization does not update its statistics
            allowed = self._distribution(self._outputs(*batch.inputs)).support
        if allowed is None:
            return
        right = allowed.check(batch.y)  # (B,), or (B, T)
        if not bool((right if counted is None else right | ~counted).all()):
            raise DataError(
                f"the head {self.output_head!r} models other targets than these, which go from {batch.y.min():.3g} to "
                f"{batch.y.max():.3g}; take another head, or change the targets (that of a CSV file is standardized "
                "unless it is named FILE.csv:raw)"
            )

    def _distribution(self, outputs: Tensor) -> Distribution:
        if self.output_head is not None:
            return self.output_head.distribution(outputs)
        if self.classes is None:
            return Normal(outputs, 1.0, validate_args=False)
        return Categorical(logits=outputs, validate_args=False)

    def _outputs(self, *inputs: Tensor) -> Tensor:
        outputs: Tensor = self(*inputs)
        return full(outputs)


def _center(distribution: Distribution, how: How) -> Tensor:
    try:
        return distribution.mode if how == "mode" else distribution.mean
    except NotImplementedError:
        other = "mean" if how == "mode" else "mode"
        raise UsageError(f"torch has no {how} for the distribution of this head; use how={other!r}") from None
