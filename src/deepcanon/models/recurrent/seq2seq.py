"""Sequence-to-sequence (seq2seq)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Recipe, SequencePairs
from deepcanon.core.checks import at_least
from deepcanon.models._translator import Translator
from deepcanon.models.recurrent._recurrent import State, check_sizes, fitting_precision
from deepcanon.nn.bidirectional import Bidirectional


class Seq2Seq(Translator):
    r"""An encoder that reads a source into one vector, the thought vector, and a decoder that writes the target.

    Also known as: encoder-decoder RNN, RNN encoder-decoder, neural machine translation.

    .. math:: h_j = (\overrightarrow{h}_j, \overleftarrow{h}_j) = \mathrm{gru}(x_1 \dots x_S)_j, \qquad
              c = \tanh(W (\overrightarrow{h}_S, \overleftarrow{h}_1) + b) \qquad (1)

    .. math:: s_0 = \tanh(U c + a), \qquad s_t = \mathrm{gru}(s_{t-1}, (E_{y_{t-1}}, c)) \qquad (2)

    .. math:: p(y_t \mid y_{<t}, x) = \mathrm{softmax}(V (s_t, c, E_{y_{t-1}}) + d) \qquad (3)

    All that the decoder has of the source is the thought vector c, however long the source is. As in the paper of
    Cho et al., the decoder reads c at every step; in that of Sutskever et al. it is only the state that the decoder
    begins with, and is learned more slowly. The encoder reads in both directions, so that neither end of the source is
    far from the thought vector; the papers read in one, Sutskever et al. backward. ``seq2seq_attention`` has no such
    bottleneck.

    Dates as people write them, into ISO 8601, in about a minute on one core::

        deepcanon train seq2seq --data dates
        deepcanon translate runs/seq2seq-dates "3 october 2021" --beams 3

    References:
        | Sequence to Sequence Learning with Neural Networks (Sutskever et al., 2014), https://arxiv.org/abs/1409.3215
        | Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation
          (Cho et al., 2014), https://arxiv.org/abs/1406.1078

    Arguments:
        vocab: The number of different tokens of the source.
        target_vocab: The number of different tokens of the target.
        begin_token: The token that every target begins with.
        end_token: The token that every target ends with.
        embedding: The width of the token embeddings.
        units: The number of hidden units of a layer of the decoder, and of each direction of the encoder; the thought
            vector has as many.
        layers: The number of layers of the encoder and of the decoder.
        dropout: The dropout probability of the embeddings, between layers, and of the output layer's inputs.
        own_inputs: The share of inputs that are the model's own draws in training, one number, or that of the beginning
            and that of the end: 0,0.5 is scheduled sampling.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine:warmup=50", batch_size=64, epochs=5, clip="norm:1.0")

    def __init__(
        self,
        vocab: int,
        target_vocab: int,
        begin_token: int,
        end_token: int,
        embedding: int = 32,
        units: int = 128,
        layers: int = 1,
        dropout: float = 0.0,
        own_inputs: tuple[float, ...] = (),
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, target_vocab, begin_token, end_token, own_inputs)
        check_sizes(units, layers, dropout)
        at_least(1, embedding=embedding)
        self.source_embedding = nn.Embedding(vocab, embedding)
        self.target_embedding = nn.Embedding(target_vocab, embedding)  # E
        self.encoder = Bidirectional(lambda inputs: nn.GRU(inputs, units), embedding, units, layers, dropout)
        self.thought = nn.Linear(2 * units, units)  # W, b
        self.bridge = nn.Linear(units, layers * units)  # U, a
        self.decoder = nn.GRU(embedding + units, units, layers, dropout=dropout if layers > 1 else 0.0)
        self.head = self._head(output, 2 * units + embedding)  # V, d
        self.dropout = nn.Dropout(dropout)

    @classmethod
    def example(cls) -> tuple[Self, SequencePairs]:
        x = torch.randint(4, (12, 4), generator=torch.Generator().manual_seed(0))
        lengths = 1 + torch.arange(12) % 4
        y = torch.nn.functional.pad(2 + x % 2, (1, 1))  # begin, the copy, end
        y = y.scatter(1, lengths.unsqueeze(1) + 1, 1)
        return cls(4, 4, 0, 1, embedding=3, units=4, layers=2), SequencePairs(x, lengths, y, lengths + 2)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        """The logits of the next token after each of the target tokens (B, t), and the state after the last."""
        with fitting_precision(tokens.device):
            hidden, thought = self._encoded(len(tokens)) if state is None else state
            embedded = self.dropout(self.target_embedding(tokens.T))  # (t, B, embedding)
            given = thought.expand(len(embedded), -1, -1)
            values, hidden = self.decoder(torch.cat([embedded, given], 2), hidden)  # eq. (2)
            features = self.dropout(torch.cat([values, given, embedded], 2))
            return self.head(features).transpose(0, 1), State((hidden, thought))  # eq. (3)

    @torch.no_grad()
    def thoughts(self, x: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """The thought vectors of sources (B, S), (B, units): what the decoder knows of them."""
        return self.given(x if lengths is None else (x, lengths))._encoded(len(x))[1][0]

    def _encoded(self, rows: int) -> State:
        """The states of the decoder's layers before the first token, (layers, B, units), and the thought vectors."""
        x, lengths = self.source(rows)
        annotations = self.encoder(self.dropout(self.source_embedding(x.T)), lengths)  # (S, B, 2 units)
        thought = self.thought(self.encoder.last(annotations, lengths)).tanh()  # eq. (1)
        hidden = self.bridge(thought).tanh().view(rows, -1, thought.shape[1]).transpose(0, 1)
        return State((hidden.contiguous(), thought.unsqueeze(0)))
