"""The engine of models that caption images: a language model of captions that is conditioned on images."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import Captioned, Context, DataError, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models._conditional_language import ConditionalLanguage

LONGEST = 100
"""The most tokens of a caption by a model that has learned from none."""


class Captioner(ConditionalLanguage[Captioned]):
    r"""A distribution over captions given an image, one token at a time.

    .. math:: \log p(y \mid x) = \sum_{t=2}^{n} \log p(y_t \mid y_{<t}, x) \qquad (1)

    The context are images, (B, channels, height, width). A leaf writes ``read(tokens, state)``; with no state yet, it
    encodes ``self.images(B)``.
    """

    conditioned_on = "an image"

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        target_vocab: int,
        begin_token: int,
        end_token: int,
        own_inputs: tuple[float, ...] = (),
    ) -> None:
        super().__init__(target_vocab, begin_token, end_token, own_inputs)
        at_least(1, channels=channels, height=height, width=width)
        self.shape = (channels, height, width)

    def images(self, rows: int) -> Tensor:
        """The bound images of so many captions, (B, channels, height, width)."""
        bound = self._context(rows)
        assert isinstance(bound, Tensor)  # as _check_context has seen
        return bound

    def context_of(self, batch: Captioned) -> Context:
        return batch.x

    def forward(self, x: Tensor, y: Tensor, y_lengths: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """The logits of the next token after each token of the captions y, (B, T, target_vocab)."""
        return self.given(x).target_logits(y, y_lengths)

    @torch.no_grad()
    def translate(
        self, x: Tensor, *, beams: int = 1, steps: int | None = None, length_penalty: float = 0.0, exact: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The most probable caption of each image that a beam search finds, (B, T), and their lengths, (B,).

        Captions begin with the begin token and end with the end token, or after ``steps`` tokens, by default as many as
        the longest that was learned from has. With one beam this is greedy decoding; an ``exact`` search misses none.
        ``length_penalty`` is that of :func:`~deepcanon.decoding.beam.beam_search`.
        """
        most = self.most_tokens(LONGEST) if steps is None else steps
        return self.given(x).best_targets(len(x), most, beams, length_penalty, exact)

    def _check_context(self, context: Context) -> None:
        if not isinstance(context, Tensor):
            raise UsageError(f"{self.name()} is conditioned on images alone, not on {len(context)} things")
        if not context.is_floating_point() or tuple(context.shape[1:]) != self.shape:
            raise DataError(
                f"{self.name()} is conditioned on images of real numbers, (B, {', '.join(map(str, self.shape))}); "
                f"got {context.dtype} of {tuple(context.shape)}"
            )
