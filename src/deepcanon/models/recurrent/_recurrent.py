"""The engine of recurrent models: language models, classifiers and regressors, padding, and a carried state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from deepcanon.core import (
    AnyBatch,
    DataError,
    Labeled,
    LabeledSequences,
    LikelihoodKind,
    Model,
    Sequences,
    Stream,
    Support,
    Terms,
    UsageError,
)
from deepcanon.core.checks import at_least
from deepcanon.decoding.generation import generate
from deepcanon.decoding.next_token import next_token_nats, next_token_nll
from deepcanon.models._predictor import Predictor

State = tuple[Tensor, ...]
"""The hidden state of a recurrent network: tensors of (layers, B, units)."""

Recurrence = Callable[[Tensor, State | None], tuple[Tensor, State]]
"""Recurrent layers: from values (T, B, width) and a state to outputs (T, B, units) and the state after them."""

IGNORED = -100
NOWHERE = -1


class RecurrentLanguage(Model[Sequences]):
    r"""A recurrent language model: the next token depends on all tokens before it through a hidden state.

    A leaf makes the ``recurrent`` layers; here are the token embedding before them and the logits after them.

    .. math:: h_t = r(h_{t-1}, E_{x_t}), \qquad p(x_{t+1} \mid x_{\le t}) = \mathrm{softmax}(V h_t + b), \qquad
              \log p(x_2 \dots x_n \mid x_1) = \sum_{t=2}^{n} \log p(x_t \mid x_{<t}) \qquad (1)

    The first token of a sequence is given. Training is teacher forcing: the inputs are the true tokens. The loss is the
    negative log-likelihood in nats per token: minus the sum of (1) over all sequences by the number of tokens that it
    predicts, so that long sequences count for more than short ones.

    If the data are the windows of a text in its order (``NAME:stream``), the state after a window is carried to the
    window that continues it, also over checkpoints. No gradient flows from window to window: this is truncated
    backpropagation through time. It is meant for one process; several share the first one's states. In eval mode every
    window starts with a state of zeros.

    References:
        | An efficient gradient-based algorithm for on-line training of recurrent network trajectories
          (Williams and Peng, 1990), https://doi.org/10.1162/neco.1990.2.4.490
    """

    likelihood_kind: LikelihoodKind = "exact"
    recurrent: nn.Module
    carried: Tensor
    ends: Tensor

    def __init__(
        self, vocab: int, embedding: int, units: int, layers: int, dropout: float, streams: int, parts: int
    ) -> None:
        super().__init__()
        check_sizes(units, layers, dropout)
        at_least(1, vocab=vocab, embedding=embedding)
        at_least(0, streams=streams)
        self.vocab, self.streams = vocab, streams
        self.embedding = nn.Embedding(vocab, embedding)  # E
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(units, vocab)  # V, b
        if streams:
            self.register_buffer("carried", torch.zeros(parts, layers, streams, units))
            self.register_buffer("ends", torch.full((streams,), NOWHERE))  # the position in the text after each state

    @property
    def support(self) -> Support:
        return "categorical"

    def prepare(self, data: Iterable[Sequences]) -> None:
        """Refuse tokens that are not in the vocabulary, and data along which no state can be carried."""
        for batch in data:
            if self.streams and not isinstance(batch, Stream):
                raise UsageError(
                    f"the states of {self.streams} streams are to be carried along the text, but these data come in "
                    "no order: add ':stream' to their name, or leave out streams"
                )
            check_lengths(batch.x, batch.lengths)
            check_tokens(batch.x, batch.lengths, self.vocab)

    def loss(self, batch: Sequences) -> Terms:
        stream = batch if isinstance(batch, Stream) and self.training and self.streams else None
        known = without_padding(batch.x, batch.lengths)
        logits, state = self.read(known[:, :-1], None if stream is None else self._found(stream))
        if stream is not None:
            self._keep(stream, state)
        return {"nll": next_token_nll(logits, known, batch.lengths)}

    def metrics(self, batch: Sequences) -> Terms:
        """Nothing more: the loss is the exact ``nll`` already."""
        return {}

    def log_prob(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The exact log-probability (1) of each sequence given its first token, (B,); ``context`` are the lengths."""
        lengths = torch.full_like(x[:, 0], x.shape[1]) if context is None else context
        known = without_padding(x, lengths)
        return -next_token_nats(self(known[:, :-1]), known, lengths).sum(1)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The logits of the next token after each token, (B, T, vocab)."""
        return self.read(x if lengths is None else without_padding(x, lengths), None)[0]

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        """The logits of the next token after each of the tokens (B, t), and the state after the last of them."""
        run: Recurrence = self.recurrent
        with fitting_precision(tokens.device):
            values = self.dropout(self.embedding(tokens.T))  # (t, B, embedding)
            values, state = run(values, state)  # (t, B, units)
            return self.head(self.dropout(values)).transpose(0, 1), state

    def generate(
        self,
        prompt: Tensor,
        steps: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The prompt, (B, T), and ``steps`` sampled tokens after it, (B, T + steps)."""
        return generate(
            self.read, None, prompt, steps,
            temperature=temperature, top_k=top_k, top_p=top_p, stop=stop, generator=generator,
        )  # fmt: skip

    def _found(self, batch: Stream) -> State:
        """For each row the state that was kept at the position where the row starts, zeros where there is none."""
        if len(batch) > self.streams:
            raise UsageError(
                f"the states of {self.streams} streams are carried, but the batch has {len(batch)} rows; "
                "give the model as many streams as there are examples in a batch"
            )
        follows = batch.starts.unsqueeze(1) == self.ends  # (B, streams)
        found, which = follows.any(1).view(1, -1, 1), follows.int().argmax(1)
        return tuple(torch.where(found, part.index_select(1, which), 0) for part in self.carried)

    @torch.no_grad()
    def _keep(self, batch: Stream, state: State) -> None:
        """Put the states after these windows before those that were kept, and drop the oldest."""
        whole = batch.lengths == batch.x.shape[1]  # after a shorter window the state has read its padding
        ends = torch.where(whole, batch.starts + batch.lengths - 1, NOWHERE)
        self.ends.copy_(torch.cat([ends, self.ends])[: self.streams])
        self.carried.copy_(torch.cat([torch.stack(state).to(self.carried), self.carried], 2)[:, :, : self.streams])


class RecurrentPredictor(Predictor):
    """A recurrent classifier or regressor: of whole sequences, from their last hidden state, or of every position.

    A leaf makes the ``recurrent`` layers. Sequences are of tokens, which are embedded, or of real values. The loss is a
    mean over the sequences or, with a target at every position, over all positions that are not padding.
    """

    recurrent: nn.Module

    def __init__(
        self,
        features: int | None,
        vocab: int | None,
        classes: int | None,
        targets: int | None,
        every_position: bool,
        embedding: int,
        units: int,
        layers: int,
        dropout: float,
        head: str | None = None,
    ) -> None:
        super().__init__()
        check_sizes(units, layers, dropout)
        if (features is None) == (vocab is None):
            raise UsageError(
                f"sequences are of real values or of tokens: give either features or vocab "
                f"(got features={features}, vocab={vocab})"
            )
        outputs = self._outputs_for(classes, targets, head)
        self.features, self.vocab, self.every_position = features, vocab, every_position
        if vocab is not None:
            at_least(1, vocab=vocab, embedding=embedding)
            self.embedding = nn.Embedding(vocab, embedding)
        self.width = embedding if features is None else features
        at_least(1, features=self.width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(units, outputs)

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
                check_tokens(batch.x, batch.lengths, self.vocab)
            self._check_targets(batch, valid_positions(batch.x, batch.lengths) if self.every_position else None)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The logits, the means of the targets, or the parameters of the head: (B, outputs), or (B, T, outputs)."""
        self._check(x)
        run: Recurrence = self.recurrent
        values = (x if lengths is None else without_padding(x, lengths)).transpose(0, 1)
        with fitting_precision(x.device):
            if self.vocab is not None:
                values = self.dropout(self.embedding(values))
            values, _ = run(values, None)  # (T, B, units)
            if not self.every_position:
                values = values[-1] if lengths is None else _at(values, lengths - 1)  # (B, units)
            outputs: Tensor = self.head(self.dropout(values))
            return outputs.transpose(0, 1) if self.every_position else outputs

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
        y = batch.y.masked_fill(~inside, IGNORED).flatten()
        return {"nll": cross_entropy(outputs.flatten(0, 1), y, ignore_index=IGNORED, reduction="sum") / counted}

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

    def _check(self, x: Tensor) -> None:
        wanted = "(B, T), whole numbers" if self.vocab is not None else f"(B, T, {self.features}), real numbers"
        right = x.ndim == 2 if self.vocab is not None else x.ndim == 3 and x.shape[2] == self.features
        if not right or x.is_floating_point() == (self.vocab is not None):
            raise DataError(f"the model takes sequences of the shape {wanted}; got {x.dtype} of {tuple(x.shape)}")


@contextmanager
def fitting_precision(device: torch.device) -> Iterator[None]:
    """Inside, full precision on a processor without bfloat16: torch has no recurrent kernels that emulate it."""
    emulated = device.type == "cpu" and torch.is_autocast_enabled("cpu") and not _has_bfloat16()
    with torch.autocast("cpu", enabled=False) if emulated else nullcontext():
        yield


def _has_bfloat16() -> bool:
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _at(values: Tensor, positions: Tensor) -> Tensor:
    """Of values (T, B, units), those of each row at its own position, (B, units)."""
    return values.gather(0, positions.view(1, -1, 1).expand(1, -1, values.shape[2])).squeeze(0)


def valid_positions(x: Tensor, lengths: Tensor) -> Tensor:
    """The padding mask, (B, T): True where a position is not padding."""
    return torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)


def without_padding(x: Tensor, lengths: Tensor) -> Tensor:
    """The sequences with zeros in the padding, whatever was there: NaN would pass into the gradients."""
    inside = valid_positions(x, lengths)
    return x.masked_fill(~inside.view(*inside.shape, *[1] * (x.ndim - 2)), 0)


def check_sizes(units: int, layers: int, dropout: float) -> None:
    at_least(1, units=units, layers=layers)
    if not 0 <= dropout < 1:
        raise UsageError(f"dropout is the probability to drop a value, from 0 to below 1 (got {dropout})")


def check_lengths(x: Tensor, lengths: Tensor) -> None:
    if not 1 <= int(lengths.min()) <= int(lengths.max()) <= x.shape[1]:
        found = f"from {int(lengths.min())} to {int(lengths.max())}"
        raise DataError(f"sequences padded to {x.shape[1]} positions have lengths from 1 to {x.shape[1]}; got {found}")


def check_tokens(x: Tensor, lengths: Tensor, vocab: int) -> None:
    known = without_padding(x, lengths)
    if not 0 <= int(known.min()) <= int(known.max()) < vocab:
        raise DataError(
            f"tokens must be numbers from 0 to {vocab - 1}; got some from {int(known.min())} to {int(known.max())}"
        )
