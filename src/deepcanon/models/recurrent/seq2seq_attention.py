"""Sequence-to-sequence with attention (RNNsearch)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import Recipe, SequencePairs
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.padding import known_tokens, valid_positions
from deepcanon.models._translator import Translator
from deepcanon.models.recurrent._recurrent import fitting_precision
from deepcanon.nn.attention_scores import OF_EQUAL_WIDTH, AttentionScore, ScoreKind, Weighting, weigh
from deepcanon.nn.bidirectional import Bidirectional


@dataclass(frozen=True)
class Decoding:
    """The state of decoding: the encoded source, (B, S, ...), and the hidden state of the decoder, (B, units)."""

    annotations: Tensor
    keys: Tensor
    inside: Tensor
    hidden: Tensor

    def select(self, rows: Tensor) -> Self:
        """The state of these rows."""
        return type(self)(*(part.index_select(0, rows) for part in vars(self).values()))


class Seq2SeqAttention(Translator):
    r"""An encoder and a decoder with attention: each target token looks where the source says what it needs.

    Also known as: Bahdanau attention, additive attention, neural machine translation, encoder-decoder.

    .. math:: h_j = (\overrightarrow{h}_j, \overleftarrow{h}_j) = \mathrm{gru}(x_1 \dots x_S)_j, \qquad
              s_0 = \tanh(W_0 \overleftarrow{h}_1 + b_0) \qquad (1)

    .. math:: e_{tj} = v^\top \tanh(W s_{t-1} + U h_j + b), \qquad \alpha_{tj} = \mathrm{softmax}_j(e_{tj}), \qquad
              c_t = \sum_j \alpha_{tj} h_j \qquad (2)

    .. math:: s_t = \mathrm{gru}(s_{t-1}, (E_{y_{t-1}}, c_t)), \qquad
              p(y_t \mid y_{<t}, x) = \mathrm{softmax}(V (s_t, c_t, E_{y_{t-1}}) + d) \qquad (3)

    The source is read in both directions into annotations h. The decoder writes the target token by token; the
    alignment :math:`\alpha_t` is a distribution over the positions of the source. The paper's output layer is one
    maxout layer deeper. Its score e is the additive one; ``score`` names another, of those that compare vectors of
    equal width ("dot", "cosine", "scaled") with the sum of both directions of h in place of h.

    Dates as people write them, into ISO 8601, in about a minute on one core::

        deepcanon train seq2seq_attention --data dates
        deepcanon translate runs/seq2seq_attention-dates "3 october 2021"

    References:
        | Neural Machine Translation by Jointly Learning to Align and Translate (Bahdanau et al., 2015),
          https://arxiv.org/abs/1409.0473
        | Effective Approaches to Attention-based Neural Machine Translation (Luong et al., 2015; other scores),
          https://arxiv.org/abs/1508.04025

    Arguments:
        vocab: The number of different tokens of the source.
        target_vocab: The number of different tokens of the target.
        begin_token: The token that every target begins with.
        end_token: The token that every target ends with.
        embedding: The width of the token embeddings.
        units: The number of hidden units of the decoder, and of each direction of the encoder.
        score_units: The number of hidden units of the additive score e, or the rank of "low_rank"; unless given,
            ``units``.
        score: The score of a position for the state of the decoder: "additive", "general", "low_rank", "dot", "cosine"
            or "scaled".
        how: The attention that follows from the scores: "soft", "hard" (to the best position alone) or "linear" (the
            scores themselves).
        dropout: The dropout probability of the embeddings and of the output layer's inputs.
        own_inputs: The share of inputs that are the model's own draws in training, one number, or that of the beginning
            and that of the end: 0,0.5 is scheduled sampling.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine:warmup=50", batch_size=64, epochs=3, clip="norm:1.0")

    def __init__(
        self,
        vocab: int,
        target_vocab: int,
        begin_token: int,
        end_token: int,
        embedding: int = 32,
        units: int = 64,
        score_units: int | None = None,
        score: ScoreKind = "additive",
        how: Weighting = "soft",
        dropout: float = 0.0,
        own_inputs: tuple[float, ...] = (),
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab, target_vocab, begin_token, end_token, own_inputs)
        at_least(1, embedding=embedding, units=units)
        one_of(get_args(ScoreKind), score=score)
        one_of(get_args(Weighting), how=how)
        self.source_embedding = nn.Embedding(vocab, embedding)
        self.target_embedding = nn.Embedding(target_vocab, embedding)  # E
        self.encoder = Bidirectional(lambda inputs: nn.GRU(inputs, units), embedding, units)
        self.bridge = nn.Linear(units, units)  # W_0, b_0
        self.summed, self.how = score in OF_EQUAL_WIDTH, how
        self.scoring = AttentionScore(score, units, units if self.summed else 2 * units, score_units)  # v, W, U, b
        self.cell = nn.GRUCell(embedding + 2 * units, units)
        self.head = self._head(output, 3 * units + embedding)  # V, d
        self.dropout = nn.Dropout(dropout)

    @classmethod
    def example(cls) -> tuple[Self, SequencePairs]:
        x = torch.randint(4, (12, 4), generator=torch.Generator().manual_seed(0))
        lengths = 1 + torch.arange(12) % 4
        y = torch.nn.functional.pad(2 + x % 2, (1, 1))  # begin, the copy, end
        y = y.scatter(1, lengths.unsqueeze(1) + 1, 1)
        return cls(4, 4, 0, 1, embedding=3, units=4, score_units=3), SequencePairs(x, lengths, y, lengths + 2)

    def read(self, tokens: Tensor, state: Decoding | None) -> tuple[Tensor, Decoding]:
        """The logits of the next token after each of the target tokens (B, t), and the state after the last."""
        outputs, _, state = self._decoded(tokens, self._encoded(tokens.shape[0]) if state is None else state)
        return outputs, state

    @torch.no_grad()
    def alignment(
        self, x: Tensor, y: Tensor, *, lengths: Tensor | None = None, y_lengths: Tensor | None = None
    ) -> Tensor:
        """The attention of each target token but the first to each source token, (B, T - 1, S)."""
        known = known_tokens(y, y_lengths, self.vocab)
        bound = self.given(x if lengths is None else (x, lengths))
        return bound._decoded(known[:, :-1], bound._encoded(len(y)))[1]

    def _encoded(self, rows: int) -> Decoding:
        """The state before the first token of so many targets, from their sources."""
        x, lengths = self.source(rows)
        with fitting_precision(x.device):
            annotations = self.encoder(self.dropout(self.source_embedding(x.T)), lengths)  # (S, B, 2 units)
        backward = annotations[0, :, self.encoder.units :]
        annotations = annotations.transpose(0, 1)
        hidden = self.bridge(backward).tanh()  # eq. (1)
        ahead, back = annotations.chunk(2, 2)
        keys = self.scoring.keys(ahead + back if self.summed else annotations)
        return Decoding(annotations, keys, valid_positions(x, lengths).unsqueeze(1), hidden)

    def _decoded(self, tokens: Tensor, state: Decoding) -> tuple[Tensor, Tensor, Decoding]:
        """The logits after each token, the attention weights, (B, t, S), and the state after the last token."""
        hidden, features, alignments = state.hidden, [], []
        for embedded in self.dropout(self.target_embedding(tokens)).unbind(1):
            scores = self.scoring.scores(hidden.unsqueeze(1), state.keys)  # (B, 1, S)
            weights = weigh(scores, state.inside, self.how)
            seen = torch.bmm(weights, state.annotations).squeeze(1)  # eq. (2)
            hidden = self.cell(torch.cat([embedded, seen], 1), hidden)
            features.append(torch.cat([hidden, seen, embedded], 1))
            alignments.append(weights)
        outputs: Tensor = self.head(self.dropout(torch.stack(features, 1)))  # eq. (3)
        return outputs, torch.cat(alignments, 1), replace(state, hidden=hidden)
