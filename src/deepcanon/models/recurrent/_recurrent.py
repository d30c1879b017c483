"""The engine of recurrent models: language models, classifiers and regressors, padding, and a carried state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Sequences, Stream, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models._language_model import LanguageModel
from deepcanon.models._sequence_predictor import SequencePredictor
from deepcanon.nn.bidirectional import Bidirectional, last_output


class State(tuple[Tensor, ...]):
    """The hidden state of a recurrent network: tensors of (layers, B, units)."""

    def select(self, rows: Tensor) -> Self:
        """The state of these rows."""
        return type(self)(part.index_select(1, rows) for part in self)


Recurrence = Callable[[Tensor, tuple[Tensor, ...] | None], tuple[Tensor, tuple[Tensor, ...]]]
"""Recurrent layers: from values (T, B, width) and a state to outputs (T, B, units) and the state after them."""

NOWHERE = -1


class RecurrentLanguage(LanguageModel[Sequences]):
    r"""A recurrent language model: the next token depends on all tokens before it through a hidden state.

    A leaf makes the ``recurrent`` layers; here are the token embedding before them and the logits after them.

    .. math:: h_t = r(h_{t-1}, E_{x_t}), \qquad p(x_{t+1} \mid x_{\le t}) = \mathrm{softmax}(V h_t + b) \qquad (1)

    If the data are the windows of a text in its order (``NAME:stream``), the state after a window is carried to the
    window that continues it, also over checkpoints. No gradient flows from window to window: this is truncated
    backpropagation through time. It is meant for one process; several share the first one's states. In eval mode every
    window starts with a state of zeros.

    References:
        | An efficient gradient-based algorithm for on-line training of recurrent network trajectories
          (Williams and Peng, 1990), https://doi.org/10.1162/neco.1990.2.4.490
    """

    recurrent: nn.Module
    carried: Tensor
    ends: Tensor

    def __init__(
        self,
        vocab: int,
        embedding: int,
        units: int,
        layers: int,
        dropout: float,
        own_inputs: tuple[float, ...],
        streams: int,
        parts: int,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, own_inputs)
        check_sizes(units, layers, dropout)
        at_least(1, embedding=embedding)
        at_least(0, streams=streams)
        self.streams = streams
        self.embedding = nn.Embedding(vocab, embedding)  # E
        self.dropout = nn.Dropout(dropout)
        self.head = self._head(output, units)  # V, b
        if streams:
            self.register_buffer("carried", torch.zeros(parts, layers, streams, units))
            self.register_buffer("ends", torch.full((streams,), NOWHERE))  # the position in the text after each state

    def prepare(self, data: Iterable[Sequences]) -> None:
        """Refuse tokens that are not in the vocabulary, and data along which no state can be carried."""
        super().prepare(self._in_order(data))

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        """The outputs after each of the tokens (B, t), and the state after the last of them."""
        run: Recurrence = self.recurrent
        with fitting_precision(tokens.device):
            values = self.dropout(self.embedding(tokens.T))  # (t, B, embedding)
            values, after = run(values, state)  # (t, B, units)
            return self.head(self.dropout(values)).transpose(0, 1), State(after)  # eq. (1)

    def _in_order(self, data: Iterable[Sequences]) -> Iterator[Sequences]:
        for batch in data:
            if self.streams and not isinstance(batch, Stream):
                raise UsageError(
                    f"the states of {self.streams} streams are to be carried along the text, but these data come in "
                    "no order: add ':stream' to their name, or leave out streams"
                )
            yield batch

    def _outputs_of(self, batch: Sequences, tokens: Tensor) -> Tensor:
        along = batch if isinstance(batch, Stream) and self.training and self.streams else None
        state = None if along is None else self._found(along)
        outputs, after = self.read(self._inputs(tokens, state), state)
        if along is not None:
            self._keep(along, after)
        return outputs

    def _found(self, batch: Stream) -> State:
        """For each row the state that was kept at the position where the row starts, zeros where there is none."""
        if len(batch) > self.streams:
            raise UsageError(
                f"the states of {self.streams} streams are carried, but the batch has {len(batch)} rows; "
                "give the model as many streams as there are examples in a batch"
            )
        follows = batch.starts.unsqueeze(1) == self.ends  # (B, streams)
        found, which = follows.any(1).view(1, -1, 1), follows.int().argmax(1)
        return State(torch.where(found, part.index_select(1, which), 0) for part in self.carried)

    @torch.no_grad()
    def _keep(self, batch: Stream, state: State) -> None:
        """Put the states after these windows before those that were kept, and drop the oldest."""
        whole = batch.lengths == batch.x.shape[1]  # after a shorter window the state has read its padding
        ends = torch.where(whole, batch.starts + batch.lengths - 1, NOWHERE)
        self.ends.copy_(torch.cat([ends, self.ends])[: self.streams])
        self.carried.copy_(
            torch.cat([torch.stack(tuple(state)).to(self.carried), self.carried], 2)[:, :, : self.streams]
        )


class RecurrentPredictor(SequencePredictor):
    """A recurrent classifier or regressor: of whole sequences, from their last hidden state, or of every position.

    A leaf makes the ``recurrent`` layers, which may read in both directions. Sequences are of tokens, which are
    embedded, or of real values. The loss is a mean over the sequences or, with a target at every position, over all
    positions that are not padding.
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
        head: str | None,
        bidirectional: bool,
    ) -> None:
        super().__init__(features, vocab, classes, targets, every_position, head)
        check_sizes(units, layers, dropout)
        if vocab is not None:
            at_least(1, vocab=vocab, embedding=embedding)
            self.embedding = nn.Embedding(vocab, embedding)
        self.width = embedding if features is None else features
        at_least(1, features=self.width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear((2 if bidirectional else 1) * units, self.outputs)

    def stacked(self, make: Callable[[int, int], nn.Module], units: int, layers: int, bidirectional: bool) -> nn.Module:
        """The recurrent layers as ``make(inputs, layers)`` makes them: one stack, or layers of both directions."""
        if not bidirectional:
            return make(self.width, layers)
        return Bidirectional(lambda inputs: make(inputs, 1), self.width, units, layers, self.dropout.p)

    @property
    def causal(self) -> bool:
        """Whether the output at a position depends on no later position."""
        return not isinstance(self.recurrent, Bidirectional)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The logits, the means of the targets, or the parameters of the head: (B, outputs), or (B, T, outputs)."""
        values = self._checked(x, lengths).transpose(0, 1)
        with fitting_precision(x.device):
            if self.vocab is not None:
                values = self.dropout(self.embedding(values))
            outputs: Tensor = self.head(self.dropout(self._hidden(values, lengths)))
            return outputs.transpose(0, 1) if self.every_position else outputs

    def _hidden(self, values: Tensor, lengths: Tensor | None) -> Tensor:
        """The hidden states at every position, (T, B, directions * units), or the last, (B, directions * units)."""
        if isinstance(self.recurrent, Bidirectional):
            values = self.recurrent(values, lengths)
            return values if self.every_position else self.recurrent.last(values, lengths)
        run: Recurrence = self.recurrent
        values, _ = run(values, None)
        return values if self.every_position else last_output(values, lengths)


@contextmanager
def fitting_precision(device: torch.device) -> Iterator[None]:
    """Inside, full precision on a processor without bfloat16: torch has no recurrent kernels that emulate it."""
    emulated = device.type == "cpu" and torch.is_autocast_enabled("cpu") and not _has_bfloat16()
    with torch.autocast("cpu", enabled=False) if emulated else nullcontext():
        yield


def _has_bfloat16() -> bool:
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def check_sizes(units: int, layers: int, dropout: float) -> None:
    at_least(1, units=units, layers=layers)
    if not 0 <= dropout < 1:
        raise UsageError(f"dropout is the probability to drop a value, from 0 to below 1 (got {dropout})")
