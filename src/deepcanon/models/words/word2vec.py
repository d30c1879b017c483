"""word2vec (skip-gram and CBOW)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from deepcanon.core import Descend, Recipe, Sequences, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.padding import known_tokens
from deepcanon.models.words._contexts import Blocks, blocks, expected_centers, expected_pairs, expected_words
from deepcanon.models.words._word_vectors import WordVectors

Scheme = Literal["skip_gram", "cbow"]
Objective = Literal["negative", "nce", "softmax"]


@dataclass(frozen=True)
class Scores:
    """The scores in a text of N blocks of S words, each with A positive words, and K negative words for each block.

    In skip-gram the positive words are the P words in and around the block, in CBOW the one word in the middle.
    """

    text: Blocks
    hidden: Tensor  # (N, S, latent): h
    mixing: Tensor | None  # (N, S, P): the weight of each context word in h, in CBOW
    outputs: Tensor  # (N, P, latent) in skip-gram, (N, S, latent) in CBOW: v
    noise_words: Tensor  # (N, K)
    noise: Tensor  # (N, K, latent): v
    positive: Tensor  # (N, S, A): s of the positive words, in noise-contrastive estimation less log k q
    negative: Tensor  # (N, S, K): s of the noise words, in the sampled softmax plus the log of their weight
    weight: Tensor  # (N, S, A): 1 where a word is a positive one, divided by the expected number of examples
    share: Tensor  # (K,): the weights of the noise words, which sum up to 1


class Word2Vec(WordVectors):
    r"""Word embeddings trained by negative sampling, to discriminate context words from random ones.

    Also known as: skip-gram with negative sampling (SGNS), continuous bag of words (CBOW), word vectors.

    .. math:: \mathcal L = -\log \sigma(s(o)) - k\, \mathbb E_{n \sim q} \log \sigma(-s(n)), \qquad
              s(o) = \langle h, v_o \rangle, \qquad q(n) \propto \text{count}(n)^a \qquad (1)

    In skip-gram h is the vector :math:`u_w` of a word w, and o is a word of its context: an example is a pair. In CBOW
    h is the mean (or the sum) of the vectors :math:`u` of the context of o, and o is the word in the middle. The
    context has 1 to ``window`` words to each side, drawn anew each time. The vectors u are the result, v are dropped.

    The loss (1) is that of negative sampling, in nats per example: the sum over the examples by their expected number,
    which the rows of the text alone decide, so that the losses of batches add up to that of the whole text. Its
    optimum, reached where the vectors are long enough, is not a probability but a shifted pointwise mutual information;
    with the noise a = 1 it is :math:`s(w, o) = \log p(w, o) - \log p(w)\, p(o) - \log k`.

    Two other objectives share its samples and do give probabilities, :math:`s(w, o) = \log p(o \mid w)` (up to a
    constant for each w in the last): noise-contrastive estimation has :math:`s(n) - \log k q(n)` in place of s(n) in
    (1), and the sampled softmax estimates its partition function by importance sampling,

    .. math:: \mathcal L = -s(o) + \log \mathbb E_{n \sim q} e^{s(n)} / q(n). \qquad (2)

    A block of 16 consecutive words shares its ``draws`` noise words, so that all scores are products of matrices; this
    leaves the expectation in (1) as it is. Frequent words are subsampled: one with the share f of the text is kept with
    the probability

    .. math:: \min(1, \sqrt{t/f} + t/f), \qquad (3)

    as in the authors' program (their paper lacks the second term).

    The recipe suits vocabularies of some ten thousand words. Of more, most rows of the tables are in no batch; plain
    SGD, ``sgd:fused=false``, then touches only those that are. Its rate is 0.025 for each example in the authors'
    program, and so that much times the examples of a batch here: about 150 for skip-gram.

    References:
        | Efficient Estimation of Word Representations in Vector Space (Mikolov et al., 2013),
          https://arxiv.org/abs/1301.3781
        | Distributed Representations of Words and Phrases and their Compositionality (Mikolov et al., 2013),
          https://arxiv.org/abs/1310.4546
        | Neural Word Embedding as Implicit Matrix Factorization (Levy and Goldberg, 2014),
          https://papers.nips.cc/paper/5477
        | A fast and simple algorithm for training neural probabilistic language models (Mnih and Teh, 2012),
          https://arxiv.org/abs/1206.6426
        | Quick Training of Probabilistic Neural Nets by Importance Sampling (Bengio and Senécal, 2003),
          https://proceedings.mlr.press/r4/bengio03a.html

    Arguments:
        vocab: The number of words.
        latent: The width of the word embedding.
        scheme: ``skip_gram``, a word predicts each word of its context, or ``cbow``, the context predicts the word.
        objective: ``negative`` sampling (1), noise-contrastive estimation ``nce``, or the sampled ``softmax`` (2).
        window: The largest number of context words to each side.
        negatives: The number :math:`k` of negative samples per example, as the weight of the noise.
        exponent: The power :math:`a` of the counts by which noise words are drawn; 0 draws all words alike.
        subsample: The share :math:`t` of the text beyond which words are frequent and subsampled; 0 skips none.
        average: Whether CBOW takes the mean of the vectors, not their sum.
        draws: The number of noise words that a block shares; with None all words are, weighted by their probability.
    """

    recipe = Recipe(optimizer="adagrad", lr=0.05, schedule="linear", batch_size=32, epochs=30)

    keep: Tensor
    log_q: Tensor
    steps: Tensor

    def __init__(
        self,
        vocab: int,
        latent: int = 100,
        scheme: Scheme = "skip_gram",
        objective: Objective = "negative",
        window: int = 5,
        negatives: int = 5,
        exponent: float = 0.75,
        subsample: float = 1e-3,
        average: bool = True,
        draws: int | None = 16,
    ) -> None:
        super().__init__(vocab, latent)
        one_of(get_args(Scheme), scheme=scheme)
        one_of(get_args(Objective), objective=objective)
        at_least(1, window=window, negatives=negatives, draws=1 if draws is None else draws)
        if subsample < 0:
            raise UsageError(f"subsample is a share of the text: 0 or more (got {subsample})")
        self.scheme = scheme
        self.objective = objective
        self.window = window
        self.negatives = negatives
        self.exponent = exponent
        self.subsample = subsample
        self.average = average
        self.draws = draws
        self.contexts = nn.Parameter(torch.zeros(vocab, latent))  # v
        self.register_buffer("keep", torch.empty(vocab))  # the probability of each word not to be skipped
        self.register_buffer("log_q", torch.empty(vocab))
        self.register_buffer("steps", torch.empty(vocab))  # q summed up from the first word to each
        self._follow_counts()

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        x = torch.randint(0, 12, (24, 20), generator=torch.Generator().manual_seed(0)) // torch.tensor([1, 2]).repeat(
            10
        )
        return cls(vocab=12, latent=4, window=2, subsample=0.0), Sequences(x, torch.full((24,), 20))

    def turns(self) -> Sequence[Turn[Sequences]]:
        return [Descend(self.loss, self.parameters(), gradient=self.gradient)]

    def prepare(self, data: Iterable[Sequences]) -> None:
        super().prepare(data)
        self._follow_counts()

    def weight_of(self, batch: Sequences) -> float:
        """The expected number of examples in the batch, by which the loss divides."""
        return float(self._examples(self._known(batch)))

    def loss(self, batch: Sequences) -> Terms:
        scores = self._scores(batch)
        count = scores.weight.sum(2, keepdim=True)  # (N, S, 1)
        if self.objective == "softmax":
            pairs = -scores.positive * scores.weight
            noise = count * scores.negative.logsumexp(2, keepdim=True)  # the second term of eq. (2)
        else:
            pairs = -logsigmoid(scores.positive) * scores.weight  # eq. (1)
            noise = -logsigmoid(-scores.negative) * (count * (self.negatives * scores.share))
        return {"pairs": pairs.sum(), "noise": noise.sum()}

    @torch.no_grad()
    def gradient(self, batch: Sequences) -> Callable[[], Terms]:
        """The gradient of the loss by hand: a few products of matrices, and sums over the occurrences of each word."""
        scores = self._scores(batch)
        terms, pull, push = self._gradients_by_scores(scores)
        by_hidden = torch.bmm(push, scores.noise)
        by_noise = torch.bmm(push.mT, scores.hidden)
        if scores.mixing is None:
            by_hidden.baddbmm_(pull, scores.outputs)
            by_outputs = torch.bmm(pull.mT, scores.hidden)
            self.vectors.grad = _summed(self.vectors, (scores.text.words, by_hidden))
            self.contexts.grad = _summed(
                self.contexts, (scores.text.around, by_outputs), (scores.noise_words, by_noise)
            )
        else:
            by_hidden.addcmul_(pull, scores.outputs)
            by_around = torch.bmm(scores.mixing.mT, by_hidden)
            self.vectors.grad = _summed(self.vectors, (scores.text.around, by_around))
            self.contexts.grad = _summed(
                self.contexts, (scores.text.words, pull * scores.hidden), (scores.noise_words, by_noise)
            )
        return terms

    def _gradients_by_scores(self, scores: Scores) -> tuple[Callable[[], Terms], Tensor, Tensor]:
        """The loss on demand, and its gradients by the positive and negative scores."""
        count = scores.weight.sum(2, keepdim=True)
        if self.objective == "softmax":
            log_z = scores.negative.logsumexp(2, keepdim=True)
            push = scores.negative.sub_(log_z).exp_().mul_(count)

            def sampled_softmax() -> Terms:
                return {"pairs": -(scores.positive * scores.weight).sum(), "noise": (count * log_z).sum()}

            return sampled_softmax, -scores.weight, push
        each = count * (self.negatives * scores.share)  # (N, S, K)
        positive, negative = scores.positive.sigmoid_(), scores.negative.neg_().sigmoid_()  # of the right class

        def logistic() -> Terms:
            return {"pairs": -(_log(positive) * scores.weight).sum(), "noise": -(_log(negative) * each).sum()}

        return logistic, (positive - 1).mul_(scores.weight), (1 - negative).mul_(each)

    def _known(self, batch: Sequences) -> Sequences:
        return Sequences(known_tokens(batch.x, batch.lengths, self.vocab), batch.lengths)

    @torch.no_grad()
    def _examples(self, batch: Sequences) -> Tensor:
        words = expected_words(batch, self.keep)
        return (expected_pairs(words, self.window) if self.scheme == "skip_gram" else expected_centers(words)).sum()

    def _scores(self, batch: Sequences) -> Scores:
        batch = self._known(batch)
        text = blocks(batch, self.window, self.keep, self.vectors.dtype)
        neighbors = text.neighbors
        noise_words, share = self._noise_for(text)
        noise = _rows(self.contexts, noise_words)
        mixing = None
        if self.scheme == "skip_gram":
            output_words, weight = text.around, text.near
            hidden, outputs = _rows(self.vectors, text.words), _rows(self.contexts, output_words)
            positive = torch.bmm(hidden, outputs.mT)
        else:
            output_words, weight = text.words, (neighbors > 0).to(neighbors.dtype)
            mixing = text.near / neighbors.clamp_min(1) if self.average else text.near
            hidden = torch.bmm(mixing, _rows(self.vectors, text.around))
            outputs = _rows(self.contexts, output_words)
            positive = (hidden * outputs).sum(2, keepdim=True)
        negative = torch.bmm(hidden, noise.mT)
        if self.objective == "softmax":
            negative = negative + (share.log() - self.log_q[noise_words]).unsqueeze(1)
        elif self.objective == "nce":
            offset = self.log_q[output_words] + math.log(self.negatives)
            positive = positive - offset.unsqueeze(1 if self.scheme == "skip_gram" else 2)
            negative = negative - (self.log_q[noise_words] + math.log(self.negatives)).unsqueeze(1)
        weight = weight / self._examples(batch).clamp_min(1)
        return Scores(text, hidden, mixing, outputs, noise_words, noise, positive, negative, weight, share)

    def _noise_for(self, text: Blocks) -> tuple[Tensor, Tensor]:
        """Negative samples: noise words for each block, (N, K), and their weights, (K,)."""
        if self.draws is None:
            everyone = torch.arange(self.vocab, device=text.words.device)
            return everyone.expand(len(text.words), -1), self.log_q.exp()
        uniform = torch.rand(len(text.words), self.draws, device=self.steps.device, dtype=self.steps.dtype)
        words = torch.searchsorted(self.steps, uniform).clamp_max_(self.vocab - 1)
        return words, self.steps.new_full((self.draws,), 1 / self.draws)

    @torch.no_grad()
    def _follow_counts(self) -> None:
        """Compute subsampling and noise distribution; a word that never occurs is taken as one that occurs once."""
        counts = self.counts.double().clamp_min(1)
        rarity = self.subsample * counts.sum() / counts  # t / f
        keep = (rarity.sqrt() + rarity).clamp_max(1)  # eq. (3)
        self.keep.copy_(keep if self.subsample else torch.ones_like(counts))
        log_q = (self.exponent * counts.log()).log_softmax(0)
        self.log_q.copy_(log_q)
        self.steps.copy_(log_q.exp().cumsum(0))


def _rows(table: Tensor, numbers: Tensor) -> Tensor:
    """The rows of these numbers, (..., latent); faster than indexing."""
    return table.index_select(0, numbers.flatten()).view(*numbers.shape, -1)


def _log(probability: Tensor) -> Tensor:
    return probability.clamp_min(torch.finfo(probability.dtype).tiny).log_()


def _summed(table: Tensor, *parts: tuple[Tensor, Tensor]) -> Tensor:
    """The gradient of an embedding table: for each row the sum of what the parts have for its number.

    Where few rows have any it is sparse, since all the others of a large table would cost more than these.
    """
    flat = [(words.flatten(), values.flatten(0, 1)) for words, values in parts]
    if sum(len(words) for words, _ in flat) < len(table) / 4:
        numbers, values = (torch.cat(column) for column in zip(*flat, strict=True))
        return torch.sparse_coo_tensor(numbers.unsqueeze(0), values, table.shape, check_invariants=False)
    gradient = torch.zeros_like(table)
    for words, values in flat:
        gradient.index_add_(0, words, values)
    return gradient
