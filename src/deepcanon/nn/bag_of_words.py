"""Bags of words: how often each word occurs in a text, whatever their order."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core.padding import full_lengths, known_tokens, valid_positions


def bag_of_words(tokens: Tensor, vocab: int, lengths: Tensor | None = None) -> Tensor:
    r"""The counts of all words in each text, (B, vocab): the sum of the one-hot vectors of its tokens, (B, T).

    .. math:: c = \sum_t e_{w_t}, \qquad \sum_t u_{w_t} = c\, U \qquad (1)

    The continuous bag of words (CBOW) composes a context by the sum, or the mean, of embeddings u in place of one-hot
    vectors: a product of the bag with the table U of embeddings, in which similar words count alike.

    >>> bag_of_words(torch.tensor([[1, 2, 1], [0, 0, 0]]), vocab=4, lengths=torch.tensor([3, 1]))
    tensor([[0., 2., 1., 0.],
            [1., 0., 0., 0.]])
    """
    known = known_tokens(tokens, lengths, vocab)
    there = valid_positions(tokens, full_lengths(tokens) if lengths is None else lengths)
    counts = torch.zeros(len(tokens), vocab, device=tokens.device)
    return counts.scatter_add_(1, known, there.to(counts.dtype))  # eq. (1)
