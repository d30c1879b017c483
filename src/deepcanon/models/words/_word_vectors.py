"""The engine of word embeddings: a vector and a count for each word, nearest neighbors and analogies."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, normalize

from deepcanon.core import Model, Sequences, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.hints import did_you_mean
from deepcanon.core.padding import check_lengths, known_tokens, valid_positions
from deepcanon.nn.inner_product_search import top_inner_products


class WordVectors(Model[Sequences]):
    """A word embedding: a vector for each word of a vocabulary, learned from running text.

    A leaf says by ``loss`` what the vectors are trained to predict. ``counts`` are the numbers of times that each word
    occurs in the training data; before ``prepare`` all are 1. ``vocabulary``, which the trainer sets, are the words
    themselves; without them words go by their numbers.
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
            check_lengths(batch.x, batch.lengths)
            known = known_tokens(batch.x, batch.lengths, self.vocab)
            counts += torch.bincount(known[valid_positions(known, batch.lengths)], minlength=self.vocab)
        self.counts.copy_(counts)

    def encode(self, x: Tensor) -> Tensor:
        """The embeddings of words that are given by their numbers, (..., latent)."""
        return embedding(x, self.vectors)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The embeddings of the words of a text, (B, T, latent); zero in its padding."""
        known = known_tokens(x, lengths, self.vocab)
        return self.encode(known) * valid_positions(x, lengths).unsqueeze(2)

    def nearest(self, word: str | int, n: int = 10) -> list[tuple[str, float]]:
        """The ``n`` nearest neighbors of ``word`` by cosine similarity, with the cosines."""
        number = self.number(word)
        return self._closest(self.directions()[number], n, without=[number])

    def analogy(self, a: str | int, b: str | int, c: str | int, n: int = 10) -> list[tuple[str, float]]:
        """What is to ``c`` as ``b`` is to ``a``: the words nearest to b - a + c, with the cosines."""
        numbers = [self.number(word) for word in (a, b, c)]
        first, second, third = self.directions()[numbers]
        return self._closest(normalize(second - first + third, dim=0), n, without=numbers)

    @torch.no_grad()
    def directions(self) -> Tensor:
        """The vectors of all words, normalized to length 1, (vocab, latent)."""
        return normalize(self.vectors.detach(), dim=1)

    def number(self, word: str | int) -> int:
        """The index of a word in the vocabulary."""
        if isinstance(word, int):
            if not 0 <= word < self.vocab:
                raise UsageError(f"words have the numbers 0 to {self.vocab - 1} (got {word})")
            return word
        if not self.vocabulary:
            raise UsageError("the model was not trained on words but on their numbers; give a number")
        if word not in self.vocabulary:
            advice = did_you_mean(word, self.vocabulary, f"it has {self.vocab:,} words", most=3)
            raise UsageError(f"{word!r} is not in the vocabulary; {advice}")
        return self.vocabulary.index(word)

    def word(self, number: int) -> str:
        """The word of this number, or the number itself where the words are not known."""
        return self.vocabulary[number] if self.vocabulary else str(number)

    def _closest(self, direction: Tensor, n: int, without: list[int]) -> list[tuple[str, float]]:
        left_out = set(without)
        most = min(n, self.vocab - len(left_out))
        cosines, numbers = top_inner_products(direction.unsqueeze(0), self.directions(), most + len(left_out))
        near = zip(numbers[0].tolist(), cosines[0].tolist(), strict=True)
        return [(self.word(number), cosine) for number, cosine in near if number not in left_out][:most]
