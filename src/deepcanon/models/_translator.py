"""The engine of models that translate: a language model of the target that is conditioned on the source."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from deepcanon.core import Conditional, Context, DataError, SequencePairs, Terms, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.padding import check_lengths, full_lengths, known_tokens, valid_positions
from deepcanon.models._language_model import LanguageModel


class Translator(Conditional, LanguageModel[SequencePairs]):
    r"""A distribution over target sequences given a source sequence, one token at a time.

    .. math:: \log p(y \mid x) = \sum_{t=2}^{n} \log p(y_t \mid y_{<t}, x) \qquad (1)

    The context is a source, tokens (B, S) with their lengths (B,). A target begins with the begin token, which is
    given, and ends with the end token, which is predicted: the probabilities of all targets of all lengths sum to 1. A
    leaf writes ``read(tokens, state)`` as any language model does; with no state yet, it encodes ``self.source(B)``.

    Arguments:
        vocab: The number of different tokens of the source.
        target_vocab: The number of different tokens of the target.
        begin_token: The token that every target begins with.
        end_token: The token that every target ends with.
    """

    conditioned_on = "a source"

    def __init__(self, vocab: int, target_vocab: int, begin_token: int, end_token: int) -> None:
        super().__init__(target_vocab)
        at_least(1, vocab=vocab)
        for name, token in (("begin_token", begin_token), ("end_token", end_token)):
            if not 0 <= token < target_vocab:
                raise UsageError(f"{name} is a token of the target, from 0 to {target_vocab - 1} (got {token})")
        self.source_vocab, self.begin_token, self.end_token = vocab, begin_token, end_token

    def source(self, rows: int) -> tuple[Tensor, Tensor]:
        """The bound source of so many targets: its tokens, (B, S), with zeros in the padding, and lengths, (B,)."""
        context = self._context(rows)
        tokens, lengths = context if isinstance(context, tuple) else (context, full_lengths(context))
        return known_tokens(tokens, lengths, self.source_vocab), lengths

    def context_of(self, batch: SequencePairs) -> Context:
        return batch.x, batch.lengths

    def sequences_of(self, batch: SequencePairs) -> tuple[Tensor, Tensor]:
        return batch.y, batch.y_lengths

    def prepare(self, data: Iterable[SequencePairs]) -> None:
        """Refuse tokens outside the two vocabularies, and targets without begin and end tokens."""
        for batch in data:
            self._check_context(self.context_of(batch))
            super().prepare([batch])
            last = batch.y.gather(1, batch.y_lengths.unsqueeze(1) - 1).squeeze(1)
            for token, there, where in (
                (self.begin_token, batch.y[:, 0], "begins"),
                (self.end_token, last, "ends"),
            ):
                if bool((there != token).any()):
                    row = int((there != token).nonzero()[0])
                    raise DataError(f"every target {where} with the token {token}; row {row} does with {there[row]}")

    def forward(  # type: ignore[override]
        self, x: Tensor, lengths: Tensor, y: Tensor, y_lengths: Tensor | None = None
    ) -> Tensor:
        """The logits of the next target token after each token of y, (B, T, target_vocab)."""
        return self.given((x, lengths)).target_logits(y, y_lengths)

    def target_logits(self, y: Tensor, y_lengths: Tensor | None = None) -> Tensor:
        """The logits after each token of y, (B, T, target_vocab), given the context that is bound."""
        return self.logits(self.outputs(known_tokens(y, y_lengths, self.vocab)))

    @torch.no_grad()
    def translate(
        self, x: Tensor, *, lengths: Tensor | None = None, beams: int = 1, steps: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """The most probable target of each source that a beam search finds, (B, T), and their lengths, (B,).

        Targets begin with the begin token and end with the end token, or after ``steps`` tokens, by default ten and
        twice as many as the longest source. With one beam this is greedy decoding.
        """
        lengths = full_lengths(x) if lengths is None else lengths
        begin = torch.full((len(x), 1), self.begin_token, device=x.device)
        most = 10 + 2 * x.shape[1] if steps is None else steps
        found = self.given((x, lengths)).beam_search(begin, most, beams=beams, stop=self.end_token)
        return found.best()

    def _check_context(self, context: Context) -> None:
        parts = context if isinstance(context, tuple) else (context,)
        if len(parts) > 2:
            raise UsageError(f"the context is a source: tokens, and their lengths; got {len(parts)} tensors")
        tokens, lengths = parts[0], parts[1] if len(parts) == 2 else None
        if lengths is not None:
            check_lengths(tokens, lengths)
        known_tokens(tokens, lengths, self.source_vocab)

    @torch.no_grad()
    def _metrics_of(self, outputs: Tensor, known: Tensor, lengths: Tensor) -> Terms:
        """The share of target tokens that are the most probable ones, given the true tokens before them."""
        right = (self.logits(outputs).argmax(-1) == known[:, 1:]) & valid_positions(known, lengths)[:, 1:]
        return {"accuracy": right.sum() / (lengths - 1).sum().clamp_min(1)}
