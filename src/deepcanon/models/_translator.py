"""The engine of models that translate: a language model of target sequences that is conditioned on source sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import Context, SequencePairs, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.padding import check_lengths, full_lengths, known_tokens
from deepcanon.models._conditional_language import ConditionalLanguage


class Translator(ConditionalLanguage[SequencePairs]):
    r"""A distribution over target sequences given a source sequence, one token at a time.

    .. math:: \log p(y \mid x) = \sum_{t=2}^{n} \log p(y_t \mid y_{<t}, x) \qquad (1)

    The context is a source, tokens (B, S) with their lengths (B,). A leaf writes ``read(tokens, state)``; with no state
    yet, it encodes ``self.source(B)``.

    Arguments:
        vocab: The number of different tokens of the source.
        target_vocab: The number of different tokens of the target.
        begin_token: The token that every target begins with.
        end_token: The token that every target ends with.
        own_inputs: The share of own draws among the inputs of training, as of any language model.
    """

    conditioned_on = "a source"

    def __init__(
        self, vocab: int, target_vocab: int, begin_token: int, end_token: int, own_inputs: tuple[float, ...] = ()
    ) -> None:
        super().__init__(target_vocab, begin_token, end_token, own_inputs)
        at_least(1, vocab=vocab)
        self.source_vocab = vocab

    def source(self, rows: int) -> tuple[Tensor, Tensor]:
        """The bound source of so many targets: its tokens, (B, S), with zeros in the padding, and lengths, (B,)."""
        context = self._context(rows)
        tokens, lengths = context if isinstance(context, tuple) else (context, full_lengths(context))
        return known_tokens(tokens, lengths, self.source_vocab), lengths

    def context_of(self, batch: SequencePairs) -> Context:
        return batch.x, batch.lengths

    def forward(  # type: ignore[override]
        self, x: Tensor, lengths: Tensor, y: Tensor, y_lengths: Tensor | None = None
    ) -> Tensor:
        """The logits of the next target token after each token of y, (B, T, target_vocab)."""
        return self.given((x, lengths)).target_logits(y, y_lengths)

    @torch.no_grad()
    def translate(
        self,
        x: Tensor,
        *,
        lengths: Tensor | None = None,
        beams: int = 1,
        steps: int | None = None,
        length_penalty: float = 0.0,
        exact: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The most probable target of each source that a beam search finds, (B, T), and their lengths, (B,).

        Targets begin with the begin token and end with the end token, or after ``steps`` tokens, by default ten and
        twice as many as the longest source has, and no more than any target that was learned from. With one beam this
        is greedy decoding; an ``exact`` search misses none. ``length_penalty`` is that of
        :func:`~deepcanon.decoding.beam.beam_search`.
        """
        lengths = full_lengths(x) if lengths is None else lengths
        most = self.most_tokens(10 + 2 * int(lengths.max())) if steps is None else steps
        return self.given((x, lengths)).best_targets(len(x), most, beams, length_penalty, exact)

    def _check_context(self, context: Context) -> None:
        parts = context if isinstance(context, tuple) else (context,)
        if len(parts) > 2:
            raise UsageError(f"the context is a source: tokens, and their lengths; got {len(parts)} tensors")
        tokens, lengths = parts[0], parts[1] if len(parts) == 2 else None
        if lengths is not None:
            check_lengths(tokens, lengths)
        known_tokens(tokens, lengths, self.source_vocab)
