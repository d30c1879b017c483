"""Supervised models: the base class of classifiers and regressors."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, Distribution, Normal

from deepcanon.core import DataError, Evaluated, How, Labeled, Model, Terms, UsageError, draw, eval_mode
from deepcanon.core.checks import at_least, only_classes
from deepcanon.core.precision import full
from deepcanon.distributions.heads import Head, head_layer
from deepcanon.distributions.marginals import marginals

IGNORED = -100
"""In place of a class: torch's sign for a position that does not count."""


class ClassWeighted:
    """A classifier that can learn with class weights: its loss is the cross-entropy."""

    training: bool
    class_weight: Tensor | None = None
    """The weight of each class in the loss, (classes,), set by the trainer."""

    def class_terms(self, log_p: Tensor, y: Tensor) -> Terms:
        r"""The cross-entropy of the log-probabilities as the term of a loss.

        .. math:: -\frac1N \sum_i w_{y_i} \log p(y_i \mid x_i)

        With weights it is divided by the number of examples, not by the sum of their weights as in torch, so that
        batches of unequal classes add up to the mean over all. Without, and in evaluation, all weights are 1. Classes
        that are ``IGNORED`` do not count.
        """
        if self.class_weight is None or not self.training:
            return {"nll": nn.functional.nll_loss(log_p, y)}
        weight = self.class_weight.to(log_p)
        return {"weighted_nll": nn.functional.nll_loss(log_p, y, weight, reduction="sum") / (y != IGNORED).sum()}


class Predictor(ClassWeighted, Model[Labeled]):
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

    def evaluated(self, batch: Labeled) -> Evaluated:
        outputs = self._outputs(*batch.inputs)
        terms = self._loss_of(outputs, batch)
        known = outputs.detach()
        return Evaluated(terms, self._metrics_of(known, terms, batch), self._mean_of(known))

    @torch.no_grad()
    def metrics(self, batch: Labeled) -> Terms:
        """For classes: accuracy and negative log-likelihood; for targets the errors of the mean."""
        return self.evaluated(batch).metrics

    def _loss_of(self, outputs: Tensor, batch: Labeled) -> Terms:
        """The loss of these outputs."""
        if self.classes is not None:
            return self.class_terms(outputs.log_softmax(-1), batch.y)
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
        return {"accuracy": right.to(outputs.dtype).mean(), "nll": plain_nll(outputs, terms, batch.y)}

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

    @torch.no_grad()
    def quantiles(self, *inputs: Tensor, levels: Tensor) -> Tensor:
        """The quantiles of the targets at these levels, (levels, B, targets), if torch knows them of the head."""
        if self.output_head is None:
            raise NotImplementedError("without a head there is no distribution of the targets")
        distribution = marginals(self._distribution(self._outputs(*inputs)))
        return torch.stack([distribution.icdf(level) for level in levels.to(distribution.mean.dtype)])

    def _mean_of(self, outputs: Tensor) -> Tensor | None:
        """The mean of the prediction with these outputs; None where torch knows none."""
        if self.output_head is None:
            return outputs if self.classes is None else outputs.softmax(-1)
        try:
            return self._distribution(outputs).mean
        except NotImplementedError:
            return None

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


def plain_nll(logits: Tensor, terms: Terms, y: Tensor) -> Tensor:
    """The negative log-likelihood, which is a term of the loss unless that has class weights."""
    return terms["nll"] if "nll" in terms else nn.functional.cross_entropy(logits, y)


def _center(distribution: Distribution, how: How) -> Tensor:
    try:
        return distribution.mode if how == "mode" else distribution.mean
    except NotImplementedError:
        other = "mean" if how == "mode" else "mode"
        raise UsageError(f"torch has no {how} for the distribution of this head; use how={other!r}") from None
