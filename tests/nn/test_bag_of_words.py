"""A bag of words is the sum of one-hot vectors; CBOW composes contexts by its product with the embeddings."""

from __future__ import annotations

import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer
from torch.nn.functional import one_hot

from deepcanon.core import DataError, Sequences
from deepcanon.models.words.word2vec import Word2Vec
from deepcanon.nn import bag_of_words


def test_it_is_the_sum_of_one_hot_vectors_in_any_order() -> None:
    x = torch.randint(0, 9, (5, 12), generator=torch.Generator().manual_seed(0))
    assert torch.equal(bag_of_words(x, 9), one_hot(x, 9).sum(1).float())
    assert torch.equal(bag_of_words(x, 9), bag_of_words(x.flip(1), 9))


def test_scikit_learn_counts_alike() -> None:
    texts = ["b a b", "c", "a a c b"]
    words = [[ord(word) - ord("a") for word in text.split()] for text in texts]
    x = torch.tensor([row + [0] * (4 - len(row)) for row in words])
    theirs = CountVectorizer(token_pattern=r"\w").fit_transform(texts).toarray()
    assert bag_of_words(x, 3, torch.tensor([len(row) for row in words])).tolist() == theirs.tolist()


@pytest.mark.parametrize("average", [True, False])
def test_the_context_of_cbow_is_a_bag_of_words_times_the_embeddings(average: bool) -> None:
    x = torch.tensor([[3, 1, 4, 1, 5]])
    model = Word2Vec(vocab=6, latent=3, scheme="cbow", window=2, fixed=True, subsample=0.0, average=average)
    context = torch.cat([x[:, :2], x[:, 3:]], 1)  # of the word in the middle
    bag = bag_of_words(context, 6)
    hidden = model._scores(Sequences(x, torch.tensor([5]))).hidden[0, 2]
    torch.testing.assert_close(hidden, (bag / bag.sum() if average else bag)[0] @ model.vectors)


def test_words_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(DataError, match="got 7 at position 1 of row 0"):
        bag_of_words(torch.tensor([[0, 7]]), 3)
