"""Encoding is a product with one-hot vectors, and neighbors are those of scikit-learn."""

from __future__ import annotations

import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from torch.nn.functional import one_hot

from deepcanon.core import Sequences, UsageError
from deepcanon.models.words.word2vec import Word2Vec


def some_model(vocab: int = 30, latent: int = 5) -> Word2Vec:
    torch.manual_seed(0)
    model = Word2Vec(vocab, latent).double()
    model.vectors.data.normal_()
    return model


def test_encoding_is_a_product_with_one_hot_vectors() -> None:
    model = some_model()
    x = torch.randint(0, 30, (4, 7))
    chosen = torch.randn(4, 7, 5, dtype=torch.float64)
    outputs = [model.encode(x), one_hot(x, 30).double() @ model.vectors]
    torch.testing.assert_close(*outputs, rtol=0, atol=0)
    slopes = [torch.autograd.grad((output * chosen).sum(), model.vectors)[0] for output in outputs]
    torch.testing.assert_close(*slopes)


def test_forward_is_zero_in_the_padding() -> None:
    model = some_model()
    x, lengths = torch.randint(0, 30, (3, 6)), torch.tensor([6, 2, 4])
    z = model(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(z[row, :length], model.encode(x[row, :length]))
        assert not z[row, length:].any()


def test_nearest_are_the_neighbors_by_cosine() -> None:
    model = some_model()
    vectors = model.vectors.detach().numpy()
    distances, numbers = NearestNeighbors(n_neighbors=6, metric="cosine").fit(vectors).kneighbors(vectors)
    for word in range(30):
        found = model.nearest(word, 5)
        assert [int(name) for name, _ in found] == numbers[word, 1:].tolist()
        assert [cosine for _, cosine in found] == pytest.approx((1 - distances[word, 1:]).tolist())


def test_an_analogy_is_a_parallelogram() -> None:
    model = some_model(vocab=6, latent=3)
    man, king = torch.tensor([1.0, 0, 0]), torch.tensor([0.0, 1, 0])
    royal = king - man
    woman = torch.tensor([0.0, 0, 1])
    queen = woman + royal
    model.vectors.data = torch.stack([man, king, woman, 3 * queen, -queen, man + king]).double()
    model.vocabulary = ("man", "king", "woman", "queen", "frog", "prince")
    (best, cosine), *rest = model.analogy("man", "king", "woman", 9)
    assert best == "queen"
    assert cosine == pytest.approx(1)
    assert {name for name, _ in rest} == {"frog", "prince"}


def test_words_are_given_by_name_or_number() -> None:
    model = some_model(vocab=3)
    with pytest.raises(UsageError, match="give a number"):
        model.nearest("returns")
    model.vocabulary = ("<unk>", "returns", "return")
    assert model.nearest("returns", 1) == model.nearest(1, 1)
    assert len(model.nearest("return", 100)) == 2
    with pytest.raises(UsageError, match=r"'retruns' is not in the vocabulary; did you mean returns or return\?"):
        model.nearest("retruns")
    with pytest.raises(UsageError, match="'xyzzy' is not in the vocabulary; it has 3 words"):
        model.nearest("xyzzy")
    with pytest.raises(UsageError, match=r"the numbers 0 to 2 \(got 3\)"):
        model.nearest(3)


def test_counting_leaves_out_the_padding() -> None:
    model = some_model(vocab=4)
    batch = Sequences(torch.tensor([[1, 2, 0, 0], [3, 1, 1, 0]]), torch.tensor([2, 4]))
    model.prepare([batch, batch])
    assert model.counts.tolist() == [2, 6, 2, 2]
