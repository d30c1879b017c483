"""Bidirectional encoder representations from transformers (BERT)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, dropout, gelu

from deepcanon.core import (
    DataError,
    Descend,
    Evaluated,
    How,
    Model,
    Recipe,
    SentencePairs,
    Terms,
    Turn,
    UsageError,
    draw,
)
from deepcanon.core.checks import at_least, only_classes
from deepcanon.core.fast_product import linear
from deepcanon.core.padding import (
    check_lengths,
    full_lengths,
    known_tokens,
    shows_values,
    valid_positions,
    without_padding,
)
from deepcanon.core.precision import full
from deepcanon.models.attention._masking import Masking
from deepcanon.models.attention._transformer import (
    INITIAL_STD,
    Block,
    init_weights,
    padding_mask,
    run_blocks,
    weights_of_blocks,
)


class Encoding(NamedTuple):
    """States of sentences: one of every token, (B, T, embedding), and one of the whole row, (B, embedding)."""

    tokens: Tensor
    pooled: Tensor


class BERT(Model[SentencePairs]):
    r"""A transformer encoder pretrained to fill in masked tokens and to tell whether two sentences belong together.

    Also known as: masked language model, BERT-base, BERT-large.

    .. math:: h = \mathrm{block}_L(\cdots \mathrm{block}_1(\mathrm{norm}(E_x + P + S_s))), \qquad
              c = \tanh(C h_1 + c_0) \qquad (1)

    .. math:: p(x_t \mid \tilde x) = \mathrm{softmax}(E\, \mathrm{norm}(\mathrm{gelu}(M h_t + m)) + b), \qquad
              p(y \mid x) = \mathrm{softmax}(N c + n) \qquad (2)

    .. math:: \mathcal L = -\frac1{|K|} \sum_{t \in K} \log p(x_t \mid \tilde x) -
              \frac1{|K|} \sum_{t \in K} \log p(y \mid x) \qquad (3)

    Each token attends to all others. E are the embeddings of tokens, P of positions and S of segments; the class token
    stands first. Of each row a share of the tokens is chosen anew at every step, K; in :math:`\tilde x` 80% of them are
    masked, 10% are random tokens and 10% are left. How many are chosen follows from the length of a row alone; both
    terms are means over them, so that rows count alike in both. Fine-tuning, which
    :class:`~deepcanon.methods.transfer.Transfer` does with a pretrained model, masks nothing: N has an output for each
    class of the new task, and the loss is :math:`-\log p(y \mid x)` alone.
    ``BERT(30522, 512, 103, 101, 102, layers=12, heads=12, embedding=768)`` is BERT-base, uncased, which
    ``deepcanon.from_pretrained(folder)`` builds with its weights from a folder of Hugging Face.

    References:
        | BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2019),
          https://arxiv.org/abs/1810.04805

    Arguments:
        vocab: The number of different tokens.
        length: The largest number of tokens in a row.
        mask_token: The token that stands for a masked one.
        class_token: The token that stands first; it is never masked.
        separator_token: The token that ends a sentence; it is never masked.
        classes: The number of classes of sentence pairs that it learns; left out, it is pretrained.
        layers: The number of blocks.
        heads: The number of attention heads of each block.
        embedding: The width of the token embedding, a multiple of ``heads``.
        inner: The width inside the MLP of a block; unless given, four times ``embedding``.
        dropout: The dropout probability of embeddings, attention weights and what a block adds.
        share: The share of the tokens of a row that is chosen to be predicted, at least one.
    """

    recipe = Recipe(
        optimizer="adamw:weight_decay=0.01",
        lr=2e-3,
        schedule="cosine:warmup=100",
        batch_size=32,
        epochs=4,
        clip="norm:1.0",
    )

    def __init__(
        self,
        vocab: int,
        length: int,
        mask_token: int,
        class_token: int,
        separator_token: int,
        classes: int | None = None,
        layers: int = 3,
        heads: int = 4,
        embedding: int = 64,
        inner: int | None = None,
        dropout: float = 0.0,
        share: float = 0.15,
    ) -> None:
        super().__init__()
        at_least(1, vocab=vocab, length=length, layers=layers, heads=heads, embedding=embedding)
        if not 0 <= dropout < 1 or not 0 < share < 1:
            raise UsageError(f"dropout and share are probabilities below 1 (got {dropout} and {share})")
        for name, token in (("mask", mask_token), ("class", class_token), ("separator", separator_token)):
            if not 0 <= token < vocab:
                raise UsageError(f"{name}_token is one of the {vocab} tokens, 0 to {vocab - 1} (got {token})")
        self.vocab, self.length, self.dropout = vocab, length, dropout
        self.masking = Masking(share, mask_token, (class_token, separator_token), vocab)
        self.token_embedding = nn.Embedding(vocab, embedding)  # E
        self.position_embedding = nn.Embedding(length, embedding)  # P
        self.segment_embedding = nn.Embedding(2, embedding)  # S
        self.norm = nn.LayerNorm(embedding, 1e-12)
        self.blocks = nn.ModuleList(
            Block(embedding, heads, dropout, gelu, 1e-12, post_norm=True, inner=inner) for _ in range(layers)
        )
        self.pooler = nn.Linear(embedding, embedding)  # C
        self.mask_projection = nn.Linear(embedding, embedding)  # M
        self.mask_norm = nn.LayerNorm(embedding, 1e-12)
        self.mask_bias = nn.Parameter(torch.zeros(vocab))  # b
        at_least(2, classes=2 if classes is None else classes)
        self.next_head = nn.Linear(embedding, 2 if classes is None else classes)  # N
        init_weights(self, std=INITIAL_STD * (768 / embedding) ** 0.5)  # as wide as BERT-base, as small as it has them

    @classmethod
    def example(cls) -> tuple[Self, SentencePairs]:
        start = torch.arange(12).unsqueeze(1)
        y = torch.arange(12) % 2
        words = 3 + (start + torch.arange(3)) % 4
        others = 3 + (start + torch.arange(3) + 2 * y.unsqueeze(1)) % 4
        first, mark = torch.ones_like(start), torch.full_like(start, 2)
        x = torch.cat([first, words, mark, others, mark, torch.zeros_like(start)], 1)
        segments = (torch.arange(10) > 4).long().expand(12, -1) * (torch.arange(10) < 9)
        model = cls(vocab=7, length=10, mask_token=0, class_token=1, separator_token=2, layers=2, heads=2, embedding=8)
        return model, SentencePairs(x, torch.full((12,), 9), segments, y)

    @property
    def is_pretrained(self) -> bool:
        """Whether it learns masked tokens and next sentences, and not the classes of a task."""
        return self.hparams["classes"] is None

    def prepare(self, data: Iterable[SentencePairs]) -> None:
        """Refuse tokens that are not in the vocabulary, rows that are too long, and labels outside the classes."""
        for batch in data:
            self._known(batch.x, batch.lengths)
            only_classes(batch.y, self.next_head.out_features)

    def turns(self) -> Sequence[Turn[SentencePairs]]:
        if self.is_pretrained:
            return super().turns()
        unused = {id(p) for part in (self.mask_projection, self.mask_norm) for p in part.parameters()}
        used = [p for p in self.parameters() if id(p) not in {*unused, id(self.mask_bias)}]
        return [Descend(self.loss, used)]

    def weight_of(self, batch: SentencePairs) -> float:
        """The number of tokens that are predicted; in fine-tuning, of rows."""
        if not self.is_pretrained:
            return float(len(batch))
        return float(self.masking.counts(batch.x, batch.lengths).sum())

    def loss(self, batch: SentencePairs) -> Terms:
        return self.evaluated(batch).terms

    def metrics(self, batch: SentencePairs) -> Terms:
        return self.evaluated(batch).metrics

    def evaluated(self, batch: SentencePairs) -> Evaluated:
        """The loss, with the shares of masked tokens and of labels that are predicted right."""
        if not self.is_pretrained:
            return self._classification(batch)
        known, lengths = self._known(batch.x, batch.lengths)
        shown, places, true, counted = self.masking.draw(known, lengths)
        states = self.encode(shown, lengths, batch.segments)
        tokens = full(self._token_logits(states.tokens.take_along_dim(places.unsqueeze(-1), 1)))  # (B, K, vocab)
        rows = full(self.next_head(states.pooled))
        nats = cross_entropy(tokens.flatten(0, 1), true.flatten(), reduction="none").view(true.shape)
        told = cross_entropy(rows, batch.y, reduction="none").unsqueeze(1)
        right, told_right = tokens.argmax(-1) == true, (rows.argmax(-1) == batch.y).unsqueeze(1)

        def mean(values: Tensor) -> Tensor:
            return (values * counted).sum() / counted.sum().clamp_min(1)

        terms = {"masked_nll": mean(nats), "next_nll": mean(told)}  # eq. (3)
        return Evaluated(terms, {"masked_accuracy": mean(right), "next_accuracy": mean(told_right)})

    def _classification(self, batch: SentencePairs) -> Evaluated:
        """The loss and metrics of fine-tuning."""
        logits = full(self.next_head(self.encode(*batch.inputs).pooled))
        nll = cross_entropy(logits, batch.y)
        right = (logits.argmax(-1) == batch.y).to(logits.dtype)
        return Evaluated({"nll": nll}, {"accuracy": right.mean(), "nll": nll})

    def encode(self, x: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Encoding:
        """The states of all tokens and of the whole row; without lengths nothing is padding, and one segment is all."""
        known, lengths = self._known(x, lengths)
        h = run_blocks(self.blocks, self._embedded(known, lengths, segments), mask=padding_mask(known, lengths))
        return Encoding(h, self.pooler(h[:, 0]).tanh())  # eq. (1)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The logits of the token at each position, (B, T, vocab), and of the label of each row, (B, 2 or classes)."""
        states = self.encode(x, lengths, segments)
        return self._token_logits(states.tokens), self.next_head(states.pooled)  # eq. (2)

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The label of each row, or the probabilities; in pretraining, 0 where the second sentence follows."""
        if how not in ("mode", "mean", "sample"):
            raise UsageError(f"how must be one of mode, mean, sample (got {how!r})")
        logits: Tensor = self.next_head(self.encode(*inputs).pooled)
        if how == "sample":
            return draw(torch.distributions.Categorical(logits=logits), generator)
        return logits.argmax(-1) if how == "mode" else logits.softmax(-1)

    def fill(self, x: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """The rows with the most probable token in place of every mask token, (B, T)."""
        known, size = self._known(x, lengths)
        masked = (known == self.masking.mask_token) & valid_positions(known, size)
        return torch.where(masked, self(x, lengths, segments)[0].argmax(-1), x)

    def attention_maps(self, x: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """The attention weights among all tokens, (layers, B, heads, T, T)."""
        known, lengths = self._known(x, lengths)
        return weights_of_blocks(self.blocks, self._embedded(known, lengths, segments), padding_mask(known, lengths))

    def _known(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """The tokens with zeros in the padding, and the lengths, if these are tokens of the vocabulary."""
        if lengths is not None:
            check_lengths(x, lengths)
        known = known_tokens(x, lengths, self.vocab)
        if x.shape[1] > self.length:
            raise DataError(f"a row has up to {self.length} tokens; got {x.shape[1]}: cut it, or make length larger")
        return known, full_lengths(x) if lengths is None else lengths

    def _embedded(self, known: Tensor, lengths: Tensor, segments: Tensor | None) -> Tensor:
        parts = torch.zeros_like(known) if segments is None else without_padding(segments, lengths)
        if parts.shape != known.shape or (shows_values(parts) and not bool(((parts == 0) | (parts == 1)).all())):
            found = f"shape {tuple(parts.shape)}" if parts.shape != known.shape else str(int(parts.max()))
            raise DataError(f"segments are 0 or 1 for each token, {tuple(known.shape)}; got {found}")
        summed = self.token_embedding(known) + self.segment_embedding(parts)
        h: Tensor = self.norm(summed + self.position_embedding.weight[: known.shape[1]])
        return dropout(h, self.dropout) if self.dropout and self.training else h

    def _token_logits(self, states: Tensor) -> Tensor:
        return linear(self.mask_norm(gelu(self.mask_projection(states))), self.token_embedding.weight, self.mask_bias)
