"""The engine of models that write a target for a source: a language model of targets, conditioned on sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from deepcanon.core import Conditional, DataError, Terms, UsageError
from deepcanon.core.padding import known_tokens, valid_positions
from deepcanon.core.turn import B
from deepcanon.models._language_model import LanguageModel

ACCURACY, EXACT = "accuracy", "exact_match"


class ConditionalLanguage(Conditional, LanguageModel[B]):
    r"""A distribution over target sequences given a source, one token at a time.

    .. math:: \log p(y \mid x) = \sum_{t=2}^{n} \log p(y_t \mid y_{<t}, x) \qquad (1)

    The context is the source: a sequence (``_translator.py``) or an image (``_captioner.py``). A target, ``y`` of a
    batch, begins with the begin token, which is given, and ends with the end token, which is predicted: the
    probabilities of all targets of all lengths sum to 1. A leaf writes ``read(tokens, state)`` as any language model
    does; with no state yet, it encodes the source that is bound.

    Arguments:
        target_vocab: The number of different tokens of the target.
        begin_token: The token that every target begins with.
        end_token: The token that every target ends with.
        own_inputs: The share of own draws among the inputs of training, as of any language model.
    """

    longest_target: Tensor

    def __init__(self, target_vocab: int, begin_token: int, end_token: int, own_inputs: tuple[float, ...] = ()) -> None:
        super().__init__(target_vocab, own_inputs)
        for name, token in (("begin_token", begin_token), ("end_token", end_token)):
            if not 0 <= token < target_vocab:
                raise UsageError(f"{name} is a token of the target, from 0 to {target_vocab - 1} (got {token})")
        self.begin_token, self.end_token = begin_token, end_token
        self.register_buffer("longest_target", torch.tensor(0))  # the most tokens of one that was learned from

    @property
    def per_example(self) -> frozenset[str]:
        return frozenset({EXACT})

    def sequences_of(self, batch: B) -> tuple[Tensor, Tensor]:
        return batch.y, batch.y_lengths  # type: ignore[attr-defined]

    def prepare(self, data: Iterable[B]) -> None:
        """Refuse sources that are none, tokens outside the vocabulary, and targets without begin and end tokens."""
        self.longest_target.zero_()
        super().prepare(self._checked(data))

    def _checked(self, data: Iterable[B]) -> Iterator[B]:
        for batch in data:
            self._check_context(self.context_of(batch))
            yield batch  # whose tokens are looked at first
            y, lengths = self.sequences_of(batch)
            last = y.gather(1, lengths.unsqueeze(1) - 1).squeeze(1)
            for token, there, where in ((self.begin_token, y[:, 0], "begins"), (self.end_token, last, "ends")):
                if bool((there != token).any()):
                    row = int((there != token).nonzero()[0])
                    raise DataError(f"every target {where} with the token {token}; row {row} does with {there[row]}")
            self.longest_target.clamp_(min=int(lengths.max()))

    def most_tokens(self, usual: int) -> int:
        """After how many tokens a target ends that has no end token yet: as usual, or as the longest one learned from.

        A model that has hardly learned to end a target then writes none that is longer than any.
        """
        return min(usual, int(self.longest_target) - 1) if self.longest_target > 1 else usual

    def target_logits(self, y: Tensor, y_lengths: Tensor | None = None) -> Tensor:
        """The logits after each token of y, (B, T, target_vocab), given the context that is bound."""
        return self.logits(self.outputs(known_tokens(y, y_lengths, self.vocab)))

    def best_targets(
        self, rows: int, steps: int, beams: int, length_penalty: float, exact: bool
    ) -> tuple[Tensor, Tensor]:
        """The most probable targets that a search finds for so many bound sources, (B, T), and lengths, (B,).

        They begin with the begin token and end with the end token, or after ``steps`` tokens.
        """
        begin = torch.full((rows, 1), self.begin_token, device=next(self.parameters()).device)
        if exact and beams != 1:
            raise UsageError(f"an exact search has no beams; leave out one of exact and beams (got beams={beams})")
        if exact:
            return self.exact_search(begin, steps, stop=self.end_token, length_penalty=length_penalty).best()
        return self.beam_search(begin, steps, beams=beams, stop=self.end_token, length_penalty=length_penalty).best()

    @torch.no_grad()
    def _metrics_of(self, outputs: Tensor, known: Tensor, lengths: Tensor) -> Terms:
        """The share of target tokens that are the most probable ones, and of targets of which all tokens are.

        Both are given the true tokens before them. Greedy decoding writes just those targets of which all tokens are
        the most probable ones, so that the second is the share of sources for which it gives the exact target.
        """
        right = self.logits(outputs).argmax(-1) == known[:, 1:]
        counted = valid_positions(known, lengths)[:, 1:]
        return {
            ACCURACY: (right & counted).sum() / (lengths - 1).sum().clamp_min(1),
            EXACT: (right | ~counted).all(1).to(outputs.dtype).mean(),
            **super()._metrics_of(outputs, known, lengths),
        }
