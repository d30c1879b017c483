"""Sampled softmax: output layers that learn from the true class and a few noise classes, not from all classes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.precision import full
from deepcanon.nn.output_layer import OutputLayer, draw_noise, noise_log_probs


class Sampled(OutputLayer):
    r"""An output layer whose loss draws ``samples`` noise classes, the same for all examples of a batch.

    So their scores are one product of matrices. Noise is drawn by :math:`q(c) \propto \text{count}(c)^a`. Without
    ``samples`` every class is noise with the weight q, which is the expectation over what would be drawn. What is
    measured, ``log_probs`` and ``nats``, is always of all classes.

    Arguments:
        width: The width of the hidden vectors.
        classes: The number of classes.
        samples: The number of noise classes that are drawn for a batch; with None all classes are noise.
        exponent: The power :math:`a` of the counts by which noise is drawn; 0 draws all classes alike.
    """

    log_q: Tensor
    steps: Tensor

    def __init__(self, width: int, classes: int, samples: int | None = 64, exponent: float = 0.75) -> None:
        super().__init__(width, classes)
        at_least(1, samples=1 if samples is None else samples)
        self.samples, self.exponent = samples, exponent
        self.scores = nn.Linear(width, classes)  # s_c = <w_c, h> + b_c
        self.register_buffer("log_q", torch.full((classes,), -math.log(classes)))
        self.register_buffer("steps", self.log_q.exp().cumsum(0))  # q summed up from the first class to each

    def log_probs(self, h: Tensor) -> Tensor:
        return full(self.scores(h)).log_softmax(-1)

    @torch.no_grad()
    def follow(self, counts: Tensor) -> None:
        self._draw_by(noise_log_probs(counts, self.exponent))

    def _draw_by(self, log_q: Tensor) -> None:
        self.log_q.copy_(log_q)
        self.steps.copy_(log_q.exp().cumsum(0))

    def _noise(self) -> tuple[Tensor, Tensor]:
        """Noise classes, (K,), and the share of the noise that each stands for, which sum up to 1."""
        if self.samples is None:
            return torch.arange(self.classes, device=self.log_q.device), self.log_q.exp()
        return draw_noise(self.steps, self.samples), self.log_q.new_full((self.samples,), 1 / self.samples)

    def _true_scores(self, h: Tensor, y: Tensor) -> Tensor:
        """The score of the class of each example, (N,)."""
        return full((self.scores.weight[y] * h).sum(-1) + self.scores.bias[y])

    def _scores_of(self, h: Tensor, classes: Tensor) -> Tensor:
        """The scores of these classes for each example, (N, K)."""
        return full(h @ self.scores.weight[classes].T + self.scores.bias[classes])


class NegativeSampling(Sampled):
    r"""Negative sampling: logistic regression of the true class against noise, in place of a likelihood.

    .. math:: \mathcal L = -\log \sigma(s_y) - k\, \mathbb E_{n \sim q} \log \sigma(-s_n) \qquad (1)

    Its optimum is not a log-probability but the log-odds of data against noise, :math:`s_c = \log p(c \mid h) / k q(c)`
    (with counts as noise the pointwise mutual information less log k), from which

    .. math:: p(c \mid h) = \mathrm{softmax}_c(s_c + \log q(c)). \qquad (2)

    However many negatives there are, its gradient does not tend to that of the softmax. Nor does what also goes by this
    name, noise classes that are drawn uniformly in place of :math:`c \sim p` in the gradient of the softmax,
    :math:`\nabla s_y - \mathbb E_{c \sim p} \nabla s_c`: the limit gives every class the weight 1/C, not p(c).

    References:
        | Distributed Representations of Words and Phrases and their Compositionality (Mikolov et al., 2013),
          https://arxiv.org/abs/1310.4546

    Arguments:
        width: The width of the hidden vectors.
        classes: The number of classes.
        samples: The number of noise classes that are drawn for a batch; with None all classes are noise.
        exponent: The power :math:`a` of the counts by which noise is drawn; 0 draws all classes alike.
        negatives: The weight :math:`k` of the noise, as if so many were drawn for each example.
    """

    tends_to_nats = False

    def __init__(
        self, width: int, classes: int, samples: int | None = 64, exponent: float = 0.75, negatives: float = 5
    ) -> None:
        super().__init__(width, classes, samples, exponent)
        if negatives <= 0:
            raise UsageError(f"negatives must be above 0 (got {negatives})")
        self.negatives = negatives

    def log_probs(self, h: Tensor) -> Tensor:
        return (full(self.scores(h)) + self.log_q).log_softmax(-1)  # eq. (2)

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        flat, true = h.flatten(0, -2), y.flatten()
        noise, share = self._noise()
        positive = self._true_scores(flat, true) - self._offset(true)
        negative = self._scores_of(flat, noise) - self._offset(noise)
        losses = -logsigmoid(positive) - self.negatives * (logsigmoid(-negative) @ share)  # eq. (1)
        return losses.view(y.shape)

    def _offset(self, classes: Tensor) -> Tensor:
        """What is taken off the scores of these classes."""
        return self.log_q.new_zeros(())


class NoiseContrastive(NegativeSampling):
    r"""Noise-contrastive estimation (NCE): logistic regression of data against noise of known density.

    .. math:: \mathcal L = -\log \sigma(s_y - \log k q(y)) - k\, \mathbb E_{n \sim q} \log \sigma(-s_n + \log k q(n))
              \qquad (1)

    Its optimum is :math:`s_c = \log p(c \mid h)`: scores learn to be normalized by themselves. Where they are, the
    gradient tends to that of the softmax as k grows. Their biases start at -log C, near to that.

    References:
        | Noise-contrastive estimation (Gutmann and Hyvärinen, 2010), https://proceedings.mlr.press/v9/gutmann10a.html
        | A fast and simple algorithm for training neural probabilistic language models (Mnih and Teh, 2012),
          https://arxiv.org/abs/1206.6426
    """

    tends_to_nats = True

    def __init__(
        self, width: int, classes: int, samples: int | None = 64, exponent: float = 0.75, negatives: float = 25
    ) -> None:
        super().__init__(width, classes, samples, exponent, negatives)
        nn.init.constant_(self.scores.bias, -math.log(classes))

    def log_probs(self, h: Tensor) -> Tensor:
        return full(self.scores(h)).log_softmax(-1)

    def _offset(self, classes: Tensor) -> Tensor:
        return self.log_q[classes] + math.log(self.negatives)  # of eq. (1)


class ImportanceSampling(Sampled):
    r"""Importance-sampled softmax: its partition function is estimated by noise classes, each with its weight.

    .. math:: \mathcal L = -s_y + \log \hat Z, \qquad
              \hat Z = e^{s_y} + \frac1k \sum_{n \sim q,\, n \ne y} \frac{e^{s_n}}{q(n)} \qquad (1)

    The estimate of Z is unbiased for any number of samples; its logarithm, the loss, and its gradient are so only in
    the limit, where they are those of the softmax. The true class is always in the sum, so that no loss is negative.

    References:
        | Quick Training of Probabilistic Neural Nets by Importance Sampling (Bengio and Senécal, 2003),
          https://proceedings.mlr.press/r4/bengio03a.html
        | On Using Very Large Target Vocabulary for Neural Machine Translation (Jean et al., 2015),
          https://arxiv.org/abs/1412.2007
    """

    effective: Tensor

    def __init__(self, width: int, classes: int, samples: int | None = 64, exponent: float = 0.75) -> None:
        super().__init__(width, classes, samples, exponent)
        self.register_buffer("effective", torch.tensor(0.0))

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        flat, true = h.flatten(0, -2), y.flatten()
        noise, share = self._noise()
        own = self._true_scores(flat, true).unsqueeze(1)
        others = self._scores_of(flat, noise) + (share.log() - self.log_q[noise])
        if self.training:
            self._learn_from(others.detach(), noise)
        others = others.masked_fill(noise == true.unsqueeze(1), -torch.inf)
        return (torch.cat([own, others], 1).logsumexp(1) - own.squeeze(1)).view(y.shape)  # eq. (1)

    def report(self) -> dict[str, Tensor]:
        """The effective sample size of the last training batch: how many draws from p the noise was worth."""
        return {"effective_samples": self.effective}

    @torch.no_grad()
    def _learn_from(self, log_weights: Tensor, noise: Tensor) -> None:
        """Keep the effective sample size of these importance weights, (N, K)."""
        self.effective.copy_(effective_sample_size(log_weights).mean())


class AdaptiveImportanceSampling(ImportanceSampling):
    r"""Adaptive importance sampling: the noise follows what the model itself expects of the classes.

    .. math:: \bar p \leftarrow (1 - r)\, \bar p + r\, \frac1N \sum_i \sum_n w_{in}\, e_n, \qquad
              w_{in} = \frac{e^{s_{in}} / q(n)}{\sum_m e^{s_{im}} / q(m)} \qquad (1)

    .. math:: q = \tfrac12 \bar p + \tfrac12 q_0 \qquad (2)

    :math:`\bar p` is a moving average of the model's probabilities, estimated by the very samples (:math:`e_n` is 1 for
    the class n), and :math:`q_0 \propto \text{count}^a` keeps every class within reach. The better q fits, the larger
    the effective sample size, which ``report`` tells.

    References:
        | Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic Language Model
          (Bengio and Senécal, 2008), https://doi.org/10.1109/TNN.2007.912312

    Arguments:
        width: The width of the hidden vectors.
        classes: The number of classes.
        samples: The number of noise classes that are drawn for a batch; with None all classes are noise.
        exponent: The power :math:`a` of the counts in :math:`q_0`.
        rate: The rate :math:`r` at which the noise follows the model.
    """

    first: Tensor
    mean: Tensor

    def __init__(
        self, width: int, classes: int, samples: int | None = 64, exponent: float = 0.75, rate: float = 0.02
    ) -> None:
        super().__init__(width, classes, samples, exponent)
        if not 0 < rate < 1:
            raise UsageError(f"rate is a share, above 0 and below 1 (got {rate})")
        self.rate = rate
        self.register_buffer("first", self.log_q.exp())  # q_0
        self.register_buffer("mean", self.log_q.exp())  # the moving average of p

    @torch.no_grad()
    def follow(self, counts: Tensor) -> None:
        super().follow(counts)
        for part in (self.first, self.mean):
            part.copy_(self.log_q.exp())

    @torch.no_grad()
    def _learn_from(self, log_weights: Tensor, noise: Tensor) -> None:
        super()._learn_from(log_weights, noise)
        share = log_weights.softmax(1).mean(0).to(self.mean)  # (K,)
        self.mean.mul_(1 - self.rate).index_add_(0, noise, self.rate * share)  # eq. (1)
        self._draw_by((0.5 * self.mean + 0.5 * self.first).log())  # eq. (2)


def effective_sample_size(log_weights: Tensor) -> Tensor:
    r"""How many draws from the target so many weighted draws are worth, (N,), from log-weights (N, K).

    .. math:: \frac{(\sum_n w_n)^2}{\sum_n w_n^2} \qquad (1)

    >>> effective_sample_size(torch.tensor([[0.0, 0.0, 0.0], [9.0, -9.0, -9.0]]))
    tensor([3., 1.])
    """
    return (2 * log_weights.logsumexp(1) - (2 * log_weights).logsumexp(1)).exp()  # eq. (1)
