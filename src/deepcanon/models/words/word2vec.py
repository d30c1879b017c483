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
from deepcanon.models.words._contexts import (
    Blocks,
    Contexts,
    blocks,
    contexts,
    expected_centers,
    expected_pairs,
    kept_words,
)
from deepcanon.models.words._paths import Decisions, decisions
from deepcanon.models.words._word_vectors import WordVectors
from deepcanon.nn.hierarchical_softmax import ClassTree, huffman_tree
from deepcanon.nn.output_layer import draw_noise, noise_log_probs

Scheme = Literal["skip_gram", "cbow"]
Objective = Literal["negative", "nce", "importance", "hierarchical"]


@dataclass(frozen=True)
class Scores:
    """The scores in a text of N blocks of S words, each with A positive words, and K negative ones for each block.

    In skip-gram the positive words are the P words in and around the block, in CBOW the one word in the middle.
    """

    text: Blocks
    hidden: Tensor  # (N, S, latent): h
    contexts: Contexts | None  # the context words that h is the sum of, in CBOW
    outputs: Tensor  # (N, P, latent) in skip-gram, (N, S, latent) in CBOW: v
    noise_words: Tensor  # (N, K)
    noise: Tensor  # (N, K, latent): v
    positive: Tensor  # (N, S, A): s of the positive words, in noise-contrastive estimation less log k q
    negative: Tensor  # (N, S, K): s of the noise words, in importance sampling plus the log of their weight
    weight: Tensor  # (N, S, A): 1 where a word is a positive one, divided by the expected number of examples
    count: Tensor  # (N, S, 1): the sum of these weights
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

    Three other objectives do give probabilities, :math:`s(w, o) = \log p(o \mid w)` in the first two (in the second up
    to a constant for each w). Noise-contrastive estimation has :math:`s(n) - \log k q(n)` in place of s(n) in (1);
    importance sampling estimates the partition function of the softmax,

    .. math:: \mathcal L = -s(o) + \log \mathbb E_{n \sim q} e^{s(n)} / q(n); \qquad (2)

    and in the hierarchical softmax a word is a leaf of a Huffman tree, whose inner nodes have the vectors v,

    .. math:: \mathcal L = -\sum_{j \in \text{path}(o)} \log \sigma(\pm \langle h, v_j \rangle). \qquad (3)

    A block of 16 consecutive words shares its ``draws`` noise words, so that all scores are products of matrices (Ji
    et al., 2016); this leaves the expectation in (1) as it is. Frequent words are subsampled: one with the share f of
    the text is kept with the probability

    .. math:: \min(1, \sqrt{t/f} + t/f), \qquad (4)

    as in the authors' program (their paper lacks the second term).

    The recipe suits vocabularies of some ten thousand words. Of more, most rows of the tables are in no batch; plain
    SGD, ``sgd:fused=false``, then touches only those that are. Its rate is 0.025 for each example in the authors'
    program, and so that much times the examples of a batch here: about 300 for skip-gram.

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
        | Parallelizing Word2Vec in Shared and Distributed Memory (Ji et al., 2016), https://arxiv.org/abs/1604.04661

    Arguments:
        vocab: The number of words.
        latent: The width of the word embedding.
        scheme: ``skip_gram``, a word predicts each word of its context, or ``cbow``, the context predicts the word.
        objective: ``negative`` sampling (1), noise-contrastive estimation ``nce``, ``importance`` sampling of the
            softmax (2), or the ``hierarchical`` softmax (3).
        window: The largest number of context words to each side.
        negatives: The number :math:`k` of negative samples per example, as the weight of the noise.
        exponent: The power :math:`a` of the counts by which noise words are drawn; 0 draws all words alike.
        subsample: The share :math:`t` of the text beyond which words are frequent and subsampled; 0 skips none.
        average: Whether CBOW takes the mean of the vectors, not their sum.
        draws: The number of noise words that a block shares; with None all words are, weighted by their probability.
        fixed: Whether every window has its largest size, rather than a random one.
    """

    recipe = Recipe(optimizer="adagrad", lr=0.1, schedule="linear", batch_size=64, epochs=30)

    keep: Tensor
    log_q: Tensor
    steps: Tensor
    nodes: Tensor
    sides: Tensor

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
        fixed: bool = False,
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
        self.fixed = fixed
        self.contexts = nn.Parameter(torch.zeros(vocab, latent))  # v
        self.register_buffer("keep", torch.empty(vocab))  # the probability of each word not to be skipped
        self.register_buffer("log_q", torch.empty(vocab))
        self.register_buffer("steps", torch.empty(vocab))  # q summed up from the first word to each
        for name in ("nodes", "sides"):  # the Huffman tree, which follows from the counts
            self.register_buffer(name, torch.empty(0), persistent=False)
        self.register_load_state_dict_post_hook(lambda model, _: model._plant())  # type: ignore[no-untyped-call]
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
        return float(self._examples(kept_words(self._known(batch), self.keep).sum(1)))

    def loss(self, batch: Sequences) -> Terms:
        if self.objective == "hierarchical":
            return {"nats": self._decisions(batch)[0].cost()}  # eq. (3)
        scores = self._scores(batch)
        if self.objective == "importance":
            pairs = -scores.positive * scores.weight
            noise = scores.count * scores.negative.logsumexp(2, keepdim=True)  # the second term of eq. (2)
        else:
            pairs = -logsigmoid(scores.positive) * scores.weight  # eq. (1)
            noise = -logsigmoid(-scores.negative) * (scores.count * (self.negatives * scores.share))
        return {"pairs": pairs.sum(), "noise": noise.sum()}

    @torch.no_grad()
    def gradient(self, batch: Sequences) -> Callable[[], Terms]:
        """The gradient of the loss by hand: a few products of matrices, and sums over the occurrences of each word."""
        if self.objective == "hierarchical":
            return self._gradient_by_paths(batch)
        scores = self._scores(batch)
        terms, pull, push = self._gradients_by_scores(scores)
        hidden, outputs, noise = scores.hidden, scores.outputs, scores.noise
        # Gradients are written over vectors that are needed no more: fresh memory would cost as much as the products.
        if scores.contexts is None:
            output_words = scores.text.around
            by_words = torch.bmm(push, noise).baddbmm_(pull, outputs)
            by_noise = torch.bmm(push.mT, hidden, out=noise)
            by_outputs = torch.bmm(pull.mT, hidden, out=outputs)
        else:
            output_words = scores.text.words
            by_hidden = outputs.mul_(pull).baddbmm_(push, noise)
            by_words = scores.contexts.spread(by_hidden.flatten(0, 1))
            by_noise = torch.bmm(push.mT, hidden, out=noise)
            by_outputs = hidden.mul_(pull)
        self.vectors.grad = _summed(self.vectors, (scores.text.words, by_words))
        self.contexts.grad = _summed(self.contexts, (output_words, by_outputs), (scores.noise_words, by_noise))
        return terms

    def _gradient_by_paths(self, batch: Sequences) -> Callable[[], Terms]:
        made, text, around = self._decisions(batch)
        by_hidden, by_outputs = made.slopes()
        if around is None:
            self.vectors.grad = _summed(self.vectors, (text.around, by_hidden))
        else:
            self.vectors.grad = _summed(self.vectors, (text.words, around.spread(by_hidden.flatten(0, 1))))
        self.contexts.grad = _summed(self.contexts, (made.nodes, by_outputs))
        return lambda: {"nats": made.cost()}

    def _gradients_by_scores(self, scores: Scores) -> tuple[Callable[[], Terms], Tensor, Tensor]:
        """The loss on demand, and its gradients by the positive and negative scores."""
        if self.objective == "importance":
            log_z = scores.negative.logsumexp(2, keepdim=True)
            push = scores.negative.sub_(log_z).exp_().mul_(scores.count)

            def sampled_softmax() -> Terms:
                return {"pairs": -(scores.positive * scores.weight).sum(), "noise": (scores.count * log_z).sum()}

            return sampled_softmax, -scores.weight, push
        each = scores.count * (self.negatives * scores.share)  # (N, S, K)
        positive, negative = scores.positive.sigmoid_(), scores.negative.neg_().sigmoid_()  # of the right class

        def logistic() -> Terms:
            return {"pairs": -(_log(positive) * scores.weight).sum(), "noise": -(_log(negative) * each).sum()}

        return logistic, (positive - 1).mul_(scores.weight), (1 - negative).mul_(each)

    def _known(self, batch: Sequences) -> Sequences:
        return Sequences(known_tokens(batch.x, batch.lengths, self.vocab), batch.lengths)

    def _examples(self, words: Tensor) -> Tensor:
        """The expected number of examples in rows of so many words, (B,)."""
        pairs = self.scheme == "skip_gram"
        return (expected_pairs(words, self.window, self.fixed) if pairs else expected_centers(words)).sum()

    def _text(self, batch: Sequences) -> tuple[Blocks, Contexts | None]:
        """The text in blocks and, in CBOW, the context of each of its words."""
        text = blocks(batch, self.window, self.keep, self.vectors.dtype, self.fixed)
        return text, None if self.scheme == "skip_gram" else contexts(text, self.average)

    def _decisions(self, batch: Sequences) -> tuple[Decisions, Blocks, Contexts | None]:
        text, around = self._text(self._known(batch))
        hidden = _rows(self.vectors, text.around) if around is None else around.summed(self.vectors)
        tree = ClassTree(self.nodes, self.sides)
        made = decisions(tree, text, hidden, self.contexts, around is None, self._examples(text.expected))
        return made, text, around

    def _scores(self, batch: Sequences) -> Scores:
        text, around = self._text(self._known(batch))
        noise_words, share = self._noise_for(len(text.words))
        noise = _rows(self.contexts, noise_words)
        scale = 1 / self._examples(text.expected).clamp_min(1)
        count = text.neighbors * scale
        if around is None:
            output_words, weight = text.around, text.near * scale
            hidden, outputs = _rows(self.vectors, text.words), _rows(self.contexts, output_words)
            positive = torch.bmm(hidden, outputs.mT)
        else:
            output_words, weight = text.words, (text.neighbors > 0) * scale
            count = weight
            hidden = around.summed(self.vectors).view(*text.words.shape, -1)
            outputs = _rows(self.contexts, output_words)
            positive = (hidden * outputs).sum(2, keepdim=True)
        negative = torch.bmm(hidden, noise.mT)
        if self.objective == "importance":
            negative = negative + (share.log() - self.log_q[noise_words]).unsqueeze(1)
        elif self.objective == "nce":
            offset = self.log_q[output_words] + math.log(self.negatives)
            positive = positive - offset.unsqueeze(1 if around is None else 2)
            negative = negative - (self.log_q[noise_words] + math.log(self.negatives)).unsqueeze(1)
        return Scores(text, hidden, around, outputs, noise_words, noise, positive, negative, weight, count, share)

    def _noise_for(self, count: int) -> tuple[Tensor, Tensor]:
        """Negative samples: noise words for each of so many blocks, (N, K), and their weights, (K,)."""
        if self.draws is None:
            return torch.arange(self.vocab, device=self.log_q.device).expand(count, -1), self.log_q.exp()
        return draw_noise(self.steps, count, self.draws), self.steps.new_full((self.draws,), 1 / self.draws)

    @torch.no_grad()
    def _follow_counts(self) -> None:
        """Compute subsampling and noise distribution; a word that never occurs is taken as one that occurs once."""
        counts = self.counts.double().clamp_min(1)
        rarity = self.subsample * counts.sum() / counts  # t / f
        keep = (rarity.sqrt() + rarity).clamp_max(1)  # eq. (4)
        self.keep.copy_(keep if self.subsample else torch.ones_like(counts))
        log_q = noise_log_probs(counts, self.exponent)
        self.log_q.copy_(log_q)
        self.steps.copy_(log_q.exp().cumsum(0))
        self._plant()

    def _plant(self) -> None:
        """Build the Huffman tree of the words, where it is needed."""
        if self.objective == "hierarchical" and not self.counts.is_meta:
            tree = huffman_tree(self.counts.clamp_min(1))
            self.nodes, self.sides = tree.nodes.to(self.counts.device), tree.sides.to(self.vectors)


def _rows(table: Tensor, numbers: Tensor) -> Tensor:
    """The rows of these numbers, (..., latent); faster than indexing."""
    return table.index_select(0, numbers.flatten()).view(*numbers.shape, -1)


def _log(probability: Tensor) -> Tensor:
    return probability.clamp_min(torch.finfo(probability.dtype).tiny).log_()


def _summed(table: Tensor, *parts: tuple[Tensor, Tensor]) -> Tensor:
    """The gradient of an embedding table: for each row the sum of what the parts have for its number.

    Where few rows have any it is sparse, since all the others of a large table would cost more than these.
    """
    flat = [(words.flatten(), values.reshape(-1, table.shape[1])) for words, values in parts]
    if sum(len(words) for words, _ in flat) < len(table) / 4:
        numbers, values = (torch.cat(column) for column in zip(*flat, strict=True))
        return torch.sparse_coo_tensor(numbers.unsqueeze(0), values, table.shape, check_invariants=False)
    gradient = torch.zeros_like(table)
    for words, values in flat:
        gradient.index_add_(0, words, values)
    return gradient
