"""What models of word vectors share: a vector for each word, its count, and questions about neighbors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, normalize

from deepcanon.core import Model, Sequences, UsageError
from deepcanon.core.checks import at_least


class Words(Model[Sequences]):
    """A vector for each word of a vocabulary, learned from running text.

    A leaf says by ``loss`` what the vectors are to tell of the text. ``counts`` says how often each word occurs in the
    training data; until these have been seen, all words count alike. ``tokens``, which the trainer keeps, are the
    words themselves; numbers do in their place where there are none.
    """

    counts: Tensor

    def __init__(self, vocab: int, latent: int) -> None:
        super().__init__()
        at_least(2, vocab=vocab)
        at_least(1, latent=latent)
        self.vocab = vocab
        self.latent = latent
        self.vectors = nn.Parameter((torch.rand(vocab, latent) - 0.5) / latent)
        self.register_buffer("counts", torch.ones(vocab, dtype=torch.long))

    @torch.no_grad()
    def prepare(self, data: Iterable[Sequences]) -> None:
        """Count the words of the training data."""
        counts = torch.zeros_like(self.counts)
        for batch in data:
            written = torch.arange(batch.x.shape[1], device=batch.x.device) < batch.lengths.unsqueeze(1)
            counts += torch.bincount(batch.x[written], minlength=self.vocab)
        self.counts.copy_(counts)

    def encode(self, x: Tensor) -> Tensor:
        """The vectors of words that are given by their numbers, (..., latent)."""
        return embedding(x, self.vectors)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The vectors of the words of a text, (B, T, latent); behind its end they are zero."""
        inside = torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)
        return self.encode(x) * inside.unsqueeze(2)

    def nearest(self, word: str | int, n: int = 10) -> list[tuple[str, float]]:
        """The ``n`` words whose vectors make the smallest angles with that of ``word``, with the cosines."""
        place = self.number(word)
        return self._closest(self.directions()[place], n, without=[place])

    def analogy(self, a: str | int, b: str | int, c: str | int, n: int = 10) -> list[tuple[str, float]]:
        """What is to ``c`` as ``b`` is to ``a``: the words nearest to b - a + c, with the cosines."""
        places = [self.number(word) for word in (a, b, c)]
        first, second, third = self.directions()[places]
        return self._closest(normalize(second - first + third, dim=0), n, without=places)

    @torch.no_grad()
    def directions(self) -> Tensor:
        """The vectors of all words at length one, (vocab, latent)."""
        return normalize(self.vectors.detach(), dim=1)

    def number(self, word: str | int) -> int:
        """The place of a word in the vocabulary."""
        if isinstance(word, int):
            if not 0 <= word < self.vocab:
                raise UsageError(f"words have the numbers 0 to {self.vocab - 1} (got {word})")
            return word
        if not self.vocabulary:
            raise UsageError("the model was not trained on words but on their numbers; ask by number")
        if word not in self.vocabulary:
            near = difflib.get_close_matches(word.lower(), self.vocabulary, n=3)
            advice = f"did you mean {' or '.join(near)}?" if near else f"it knows {self.vocab:,} words"
            raise UsageError(f"{word!r} is not in the vocabulary; {advice}")
        return self.vocabulary.index(word)

    def word(self, number: int) -> str:
        """The word of this number, or the number itself where the words are not known."""
        return self.vocabulary[number] if self.vocabulary else str(number)

    def _closest(self, direction: Tensor, n: int, without: list[int]) -> list[tuple[str, float]]:
        cosines = self.directions() @ direction
        cosines[without] = -torch.inf
        best, places = cosines.topk(min(n, self.vocab - len(set(without))))
        return [(self.word(place), cosine) for place, cosine in zip(places.tolist(), best.tolist(), strict=True)]
