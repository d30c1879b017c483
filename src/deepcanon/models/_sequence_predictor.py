"""The engine of models that predict of sequences: a class or real targets of each, or of each of its positions."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, DataError, Labeled, LabeledSequences, Terms, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.padding import check_lengths, known_tokens, valid_positions, without_padding
from deepcanon.models._predictor import IGNORED, Predictor


class SequencePredictor(Predictor):
    """A classifier or regressor of sequences, of tokens or of real values, or of every position in them.

    A leaf writes ``forward(x, lengths)``. The loss is a mean over the sequences or, with a target at every position,
    over all positions that are not padding.

    Arguments:
        features: The number of real values at each position; for tokens leave it out.
        vocab: The number of different tokens; for real values leave it out.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        every_position: Whether there is a prediction at every position, not one for the whole sequence.
        head: The distribution of real targets by name.
    """

    def __init__(
        self,
        features: int | None,
        vocab: int | None,
        classes: int | None,
        targets: int | None,
        every_position: bool,
        head: str | None = None,
    ) -> None:
        super().__init__()
        if (features is None) == (vocab is None):
            raise UsageError(
                f"sequences are of real values or of tokens: give either features or vocab "
                f"(got features={features}, vocab={vocab})"
            )
        at_least(1, **({"features": features} if vocab is None else {"vocab": vocab}))
        self.outputs = self._outputs_for(classes, targets, head)
        self.features, self.vocab, self.every_position = features, vocab, every_position

    @classmethod
    def batch_type(cls) -> type[AnyBatch]:
        return LabeledSequences

    @torch.no_grad()
    def prepare(self, data: Iterable[Labeled]) -> None:
        """Refuse sequences of another kind, and labels of sequences where positions need them, or vice versa."""
        for batch in data:
            if not isinstance(batch, LabeledSequences):
                raise DataError(f"{self.name()} learns from labeled sequences, got {batch.noun}")
            if batch.at_every_position != self.every_position:
                there = "at every position" if batch.at_every_position else "for a whole sequence"
                raise DataError(
                    f"there is a label {there}, shape {tuple(batch.y.shape)}; "
                    f"build the model with every_position={batch.at_every_position}"
                )
            check_lengths(batch.x, batch.lengths)
            if self.vocab is not None:
                known_tokens(batch.x, batch.lengths, self.vocab)
            self._check_targets(batch, valid_positions(batch.x, batch.lengths) if self.every_position else None)

    def _loss_of(self, outputs: Tensor, batch: Labeled) -> Terms:
        if not (self.every_position and isinstance(batch, LabeledSequences)):
            return super()._loss_of(outputs, batch)
        counted = batch.lengths.sum()
        inside = valid_positions(batch.x, batch.lengths)
        if self.output_head is not None:
            # The padding may hold what is not a target of the head: there, any valid target takes its place.
            known = torch.where(inside.unsqueeze(2), batch.y, batch.y[:1, :1])
            log_p = self._distribution(outputs).log_prob(known)  # (B, T)
            return {"nll": -log_p.masked_fill(~inside, 0).sum() / counted}
        if self.classes is None:
            error = (outputs - batch.y).masked_fill(~inside.unsqueeze(2), 0)
            return {"mse": error.square().sum() / counted}
        return self.class_terms(outputs.log_softmax(-1).flatten(0, 1), batch.y.masked_fill(~inside, IGNORED).flatten())

    def _metrics_of(self, outputs: Tensor, terms: Terms, batch: Labeled) -> Terms:
        """The accuracy over all positions; of whole sequences, the metrics of every model that predicts."""
        if not (self.every_position and isinstance(batch, LabeledSequences)):
            return super()._metrics_of(outputs, terms, batch)
        if self.output_head is not None:
            return terms
        if self.classes is None:
            return {}
        right = (outputs.argmax(-1) == batch.y) & valid_positions(batch.x, batch.lengths)
        return {"accuracy": right.sum() / batch.lengths.sum()}

    def _checked(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """The sequences with zeros in the padding, if they are what the model takes."""
        wanted = "(B, T), whole numbers" if self.vocab is not None else f"(B, T, {self.features}), real numbers"
        right = x.ndim == 2 if self.vocab is not None else x.ndim == 3 and x.shape[2] == self.features
        if not right or x.is_floating_point() == (self.vocab is not None):
            raise DataError(f"the model takes sequences of the shape {wanted}; got {x.dtype} of {tuple(x.shape)}")
        if self.vocab is not None:
            return known_tokens(x, lengths, self.vocab)
        if lengths is None:
            return x
        check_lengths(x, lengths)
        return without_padding(x, lengths)
