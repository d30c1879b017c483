"""The next-token loss of sequence models, by teacher forcing."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from deepcanon.core.precision import full


def next_token_nll(logits: Tensor, x: Tensor, lengths: Tensor) -> Tensor:
    r"""The negative log-likelihood in nats per token, the mean over all tokens but the first of each row.

    .. math:: -\frac{1}{\sum_i (n_i - 1)} \sum_i \sum_{t=2}^{n_i} \log p(x_{it} \mid x_{i,<t}) \qquad (1)

    This is teacher forcing: ``logits`` (B, T - 1, vocab) are those after each token of the true ``x`` (B, T) but the
    last. The padding after the first ``lengths`` tokens of a row does not count. Its exponential is the perplexity.

    >>> next_token_nll(torch.zeros(1, 3, 8), torch.tensor([[5, 7, 0, 0]]), torch.tensor([2])).exp()
    tensor(8.)
    """
    return next_token_nats(logits, x, lengths).sum() / (lengths - 1).sum().clamp_min(1)  # eq. (1)


def next_token_nats(logits: Tensor, x: Tensor, lengths: Tensor) -> Tensor:
    """The negative log-likelihood of every token but the first of a row, (B, T - 1); zero in the padding."""
    nats = cross_entropy(full(logits).flatten(0, 1), x[:, 1:].flatten(), reduction="none").view(len(x), -1)
    inside = torch.arange(1, x.shape[1], device=x.device) < lengths.unsqueeze(1)  # (B, T - 1)
    return nats.masked_fill(~inside, 0)
