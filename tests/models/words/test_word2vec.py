"""Negative sampling ends at shifted mutual information, other objectives at probabilities; gradients by hand agree."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

import deepcanon as dc
from deepcanon.core import DataError, Sequences, UsageError
from deepcanon.data import Dataset
from deepcanon.models.words._contexts import blocks
from deepcanon.models.words.word2vec import Scheme, Word2Vec
from deepcanon.nn import HierarchicalSoftmax

SCHEMES: tuple[Scheme, ...] = ("skip_gram", "cbow")
OBJECTIVES = ("negative", "nce", "importance")


def ragged() -> Sequences:
    x = torch.randint(0, 40, (6, 30), generator=torch.Generator().manual_seed(0))
    return Sequences(x, torch.tensor([30, 3, 1, 20, 30, 7]))


def trained_on(batch: Sequences, seed: int = 0, **arguments: Any) -> Word2Vec:
    """A model in double precision that has counted the words, with vectors that are far from their beginning."""
    torch.manual_seed(seed)
    model = Word2Vec(**{"vocab": 40, "latent": 8, "window": 3, "subsample": 0.05, **arguments}).double()
    model.prepare([batch])
    model.vectors.data.normal_()
    model.contexts.data.normal_()
    return model


def total(model: Word2Vec, batch: Sequences, seed: int = 1) -> Tensor:
    torch.manual_seed(seed)
    terms = model.loss(batch)
    return terms["pairs"] + terms["noise"]


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("draws", [16, 3, None])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_gradient_by_hand_is_that_of_autograd(
    scheme: str, objective: str, draws: int | None, average: bool
) -> None:
    batch = ragged()
    model = trained_on(batch, scheme=scheme, objective=objective, draws=draws, average=average)
    loss = total(model, batch)
    loss.backward()
    expected = [parameter.grad for parameter in model.parameters()]
    torch.manual_seed(1)
    terms = model.gradient(batch)()
    torch.testing.assert_close(terms["pairs"] + terms["noise"], loss.detach())
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sparse_gradient_holds_the_rows_of_a_large_table(scheme: str) -> None:
    batch = ragged()
    model = trained_on(batch, vocab=20_000, scheme=scheme)
    total(model, batch).backward()
    expected = [parameter.grad for parameter in model.parameters()]
    torch.manual_seed(1)
    model.gradient(batch)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        assert parameter.grad.is_sparse
        torch.testing.assert_close(parameter.grad.to_dense(), gradient)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_gradient_of_the_tree_by_hand_is_that_of_autograd(scheme: str, average: bool) -> None:
    batch = ragged()
    model = trained_on(batch, scheme=scheme, objective="hierarchical", average=average)
    torch.manual_seed(1)
    loss = model.loss(batch)["nats"]
    loss.backward()
    expected = [parameter.grad for parameter in model.parameters()]
    torch.manual_seed(1)
    torch.testing.assert_close(model.gradient(batch)()["nats"], loss.detach())
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_paths_cost_what_the_hierarchical_softmax_says(scheme: str) -> None:
    """Each pair of neighbors, or each word with the mean of its window, by the output layer with the same vectors."""
    batch = ragged()
    model = trained_on(batch, scheme=scheme, objective="hierarchical", window=2, fixed=True, subsample=0.0)
    layer = HierarchicalSoftmax(8, 40).double()
    layer.follow(model.counts)
    layer.scores.weight.data, layer.scores.bias.data = model.contexts.data[:39], torch.zeros(39).double()
    losses = []
    for row, length in zip(batch.x, batch.lengths.tolist(), strict=True):
        for i in range(length):
            near = [int(row[j]) for j in range(max(0, i - 2), min(length, i + 3)) if j != i]
            vectors = model.vectors[near] if scheme == "skip_gram" or not near else model.vectors[near].mean(0, True)
            losses.append(layer.nats(vectors, row[i].expand(len(vectors))))
    torch.testing.assert_close(model.loss(batch)["nats"], torch.cat(losses).mean())


def test_fixed_windows_have_all_their_words() -> None:
    batch = Sequences(torch.arange(30).unsqueeze(0), torch.tensor([30]))
    seen = blocks(batch, 3, torch.ones(30), torch.float32, fixed=True)
    wanted = [min(i, 3) + min(29 - i, 3) for i in range(30)]
    assert seen.neighbors.flatten()[:30].tolist() == wanted
    assert seen.near.sum(2).flatten()[:30].tolist() == wanted
    model = Word2Vec(vocab=40, window=3, subsample=0.0, fixed=True)
    assert model.weight_of(batch) == sum(wanted)


def test_the_tree_comes_back_with_the_counts() -> None:
    batch = ragged()
    model = trained_on(batch, objective="hierarchical")
    again = Word2Vec(vocab=40, latent=8, window=3, subsample=0.05, objective="hierarchical").double()
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.nodes, model.nodes)
    assert torch.equal(again.sides, model.sides)


def table() -> tuple[Sequences, Tensor]:
    """Texts of two words each, and how often each word has each other one next to it, as shares."""
    counts = torch.randint(1, 9, (4, 4), generator=torch.Generator().manual_seed(0))
    pairs = [torch.tensor([[w, c]]).repeat(int(counts[w, c]), 1) for w in range(4) for c in range(4)]
    x = torch.cat(pairs)
    shares = (counts + counts.T).double()
    return Sequences(x, torch.full((len(x),), 2)), shares / shares.sum()


def fitted(batch: Sequences, **arguments: Any) -> Tensor:
    """The scores at the optimum, (words, context words), of a model whose vectors are as long as there are words."""
    torch.manual_seed(0)
    model = Word2Vec(vocab=4, latent=4, window=1, subsample=0.0, draws=None, **arguments).double()
    model.prepare([batch])
    model.contexts.data.normal_()
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=2000, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        terms = model.gradient(batch)()
        return terms["pairs"] + terms["noise"]

    optimizer.step(closure)
    return (model.vectors @ model.contexts.T).detach()


@pytest.mark.parametrize("negatives", [1, 5])
def test_negative_sampling_ends_at_mutual_information_less_log_k(negatives: int) -> None:
    batch, shares = table()
    own = shares.sum(1)
    pmi = (shares / torch.outer(own, own)).log()
    scores = fitted(batch, negatives=negatives, exponent=1.0)
    torch.testing.assert_close(scores, pmi - math.log(negatives), atol=1e-5, rtol=0)


@pytest.mark.parametrize("exponent", [0.0, 0.75])
def test_negative_sampling_ends_at_the_odds_of_data_against_noise(exponent: float) -> None:
    batch, shares = table()
    own = shares.sum(1)
    noise = own**exponent / (own**exponent).sum()
    scores = fitted(batch, negatives=2, exponent=exponent)
    torch.testing.assert_close(scores, (shares / own[:, None] / (2 * noise)).log(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("negatives", [1, 5])
def test_noise_contrastive_estimation_ends_at_probabilities_whatever_the_noise(negatives: int, exponent: float) -> None:
    batch, shares = table()
    scores = fitted(batch, objective="nce", negatives=negatives, exponent=exponent)
    torch.testing.assert_close(scores.exp(), shares / shares.sum(1, keepdim=True), atol=1e-5, rtol=0)


def test_the_softmax_ends_at_probabilities() -> None:
    batch, shares = table()
    scores = fitted(batch, objective="importance")
    torch.testing.assert_close(scores.softmax(1), shares / shares.sum(1, keepdim=True), atol=1e-5, rtol=0)


def normalized(batch: Sequences, **arguments: Any) -> Word2Vec:
    """A model whose scores of the words next to a word are log-probabilities that sum up to one."""
    model = trained_on(batch, vocab=4, latent=4, window=1, subsample=0.0, exponent=1.0, **arguments)
    with torch.no_grad():
        model.vectors.copy_(model.vectors.log_softmax(1))
        model.contexts.copy_(torch.eye(4))
    return model


def distance_to_softmax(model: Word2Vec, batch: Sequences, seeds: int) -> float:
    """How far the mean gradient is from that of torch's own softmax, relative to its length."""
    words, others = batch.x.flatten(), batch.x.flip(1).flatten()
    exact = slope(cross_entropy(model.vectors[words] @ model.contexts.T, others), model)
    drawn = torch.stack([slope(total(model, batch, seed), model) for seed in range(seeds)])
    return float((drawn.mean(0) - exact).norm() / exact.norm())


def slope(loss: Tensor, model: Word2Vec) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def test_importance_sampling_tends_to_the_softmax_gradient_with_the_draws() -> None:
    batch, _ = table()
    few, many = (
        distance_to_softmax(normalized(batch, objective="importance", draws=draws), batch, 100) for draws in (1, 400)
    )
    assert many < 0.02 < 0.2 < few  # of a few draws it is biased, not only noisy


def test_noise_contrastive_estimation_tends_to_the_softmax_gradient_with_k() -> None:
    batch, _ = table()
    few, many = (
        distance_to_softmax(normalized(batch, objective="nce", negatives=k, draws=None), batch, 1) for k in (1, 10_000)
    )
    assert many < 1e-3 < 0.2 < few


def test_negative_sampling_does_not_tend_to_the_softmax_gradient() -> None:
    batch, _ = table()
    model = normalized(batch, objective="negative", negatives=10_000, draws=None)
    assert distance_to_softmax(model, batch, 1) > 0.5


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_loss_is_the_mean_over_examples_written_out(scheme: str, average: bool) -> None:
    batch = ragged()
    model = trained_on(batch, scheme=scheme, window=1, subsample=0.0, draws=None, average=average)
    counts = torch.bincount(
        torch.cat([row[:length] for row, length in zip(batch.x, batch.lengths, strict=True)]), minlength=40
    )
    q = counts.double().clamp_min(1) ** 0.75
    q /= q.sum()
    losses = []
    for row, length in zip(batch.x, batch.lengths.tolist(), strict=True):
        for i in range(length):
            near = [int(row[j]) for j in (i - 1, i + 1) if 0 <= j < length]
            if scheme == "skip_gram":
                examples = [(model.vectors[row[i]], word) for word in near]
            else:
                h = model.vectors[near].mean(0) if average else model.vectors[near].sum(0)
                examples = [(h, int(row[i]))] if near else []
            losses += [
                -logsigmoid(model.contexts[word] @ h) - 5 * (q * logsigmoid(-(model.contexts @ h))).sum()
                for h, word in examples
            ]
    torch.testing.assert_close(total(model, batch), torch.stack(losses).mean())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_drawn_noise_has_the_expectation_of_all_noise(scheme: str) -> None:
    batch = ragged()
    model = trained_on(batch, scheme=scheme, window=1, subsample=0.0, draws=4)
    with torch.no_grad():
        drawn = torch.stack([total(model, batch, seed) for seed in range(400)])
        model.draws = None
        exact = total(model, batch)
    assert abs(float(drawn.mean() - exact)) < 4 * float(drawn.std()) / 20


def test_untrained_vectors_cost_one_bit_for_each_comparison() -> None:
    _, batch = Word2Vec.example()
    model = Word2Vec(vocab=12, window=1, subsample=0.0)
    assert float(total(model, batch).detach()) == pytest.approx((1 + model.negatives) * math.log(2))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_losses_of_parts_add_up_to_that_of_the_whole_text(scheme: str) -> None:
    batch = ragged()
    model = trained_on(batch, scheme=scheme, window=1, subsample=0.0, draws=None)
    parts = [batch.select(index) for index in (torch.tensor([0, 2]), torch.tensor([1, 5, 3]), torch.tensor([4]))]
    assert sum(map(model.weight_of, parts)) == pytest.approx(model.weight_of(batch), rel=1e-12)
    with torch.no_grad():
        together = sum(model.weight_of(part) * total(model, part) for part in parts) / model.weight_of(batch)
        torch.testing.assert_close(together, total(model, batch), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_evaluation_is_the_same_in_batches_of_any_size(scheme: str) -> None:
    batch = ragged()
    model = trained_on(batch, scheme=scheme, window=1, subsample=0.0, draws=None)
    wanted = dc.evaluate(model, batch, size=6)
    for size in (1, 2, 5):
        assert dc.evaluate(model, batch, size=size) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_accumulated_gradients_are_those_of_the_whole_batch(scheme: str) -> None:
    batch, found = ragged(), []
    data: Dataset[Any] = Dataset(name="words", kind="text", train=batch, sizes={"vocab": 40})
    for accumulate in (1, 3):
        model = trained_on(batch, scheme=scheme, window=1, subsample=0.0, draws=None)
        dc.fit(model, data, steps=2, batch_size=6, accumulate=accumulate, optimizer="sgd", lr=0.5, quiet=True)
        found.append(model.vectors.detach())
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)


@pytest.mark.parametrize("subsample", [0.0, 0.05])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_weight_is_the_expected_number_of_examples(scheme: str, subsample: float) -> None:
    x = torch.randint(0, 40, (3, 60), generator=torch.Generator().manual_seed(0))
    batch = Sequences(x, torch.tensor([60, 45, 60]))
    model = trained_on(batch, scheme=scheme, subsample=subsample)
    torch.manual_seed(0)
    counts = []
    for _ in range(600):
        near = blocks(batch, model.window, model.keep, torch.float64).near
        counts.append(near.sum() if scheme == "skip_gram" else (near.sum(2) > 0).sum())
    drawn = torch.stack(counts).double()
    assert abs(float(drawn.mean()) - model.weight_of(batch)) <= 4 * float(drawn.std()) / len(counts) ** 0.5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_windows_leave_the_loss_of_parts_unbiased(scheme: str) -> None:
    batch = ragged()
    model = trained_on(batch, scheme=scheme, subsample=0.0, draws=None)
    parts = [batch.select(index) for index in (torch.tensor([0, 2]), torch.tensor([1, 3, 4, 5]))]
    shares = [model.weight_of(part) / model.weight_of(batch) for part in parts]
    draws = 80
    with torch.no_grad():
        whole = torch.stack([total(model, batch, seed) for seed in range(draws)])
        each = [[total(model, part, 100 + 2 * seed + i) for seed in range(draws)] for i, part in enumerate(parts)]
        split = sum((share * torch.stack(one) for share, one in zip(shares, each, strict=True)), torch.zeros(()))
    error = float((whole.var() + split.var()).sqrt()) / draws**0.5
    assert abs(float(whole.mean() - split.mean())) < 4 * error


def test_padding_is_anything_and_words_are_in_the_vocabulary() -> None:
    batch = ragged()
    model = trained_on(batch)
    inside = torch.arange(30) < batch.lengths.unsqueeze(1)
    dirty = Sequences(batch.x.masked_fill(~inside, -1), batch.lengths)
    with torch.no_grad():
        assert torch.equal(total(model, dirty), total(model, batch))
        assert torch.equal(model(dirty.x, dirty.lengths), model(batch.x, batch.lengths))
    for strange in (-1, 40):
        x = batch.x.clone()
        x[3, 2] = strange
        for method in (lambda wrong: model.prepare([wrong]), model.loss, model.gradient, model.weight_of):
            with pytest.raises(DataError, match=f"got {strange} at position 2 of row 3"):
                method(Sequences(x, batch.lengths))


def test_frequent_words_are_kept_by_the_formula() -> None:
    x = torch.cat([torch.zeros(900), torch.ones(90), torch.full((10,), 2)]).long().unsqueeze(0)
    model = Word2Vec(vocab=3, subsample=0.02)
    model.prepare([Sequences(x, torch.tensor([1000]))])
    expected = [math.sqrt(0.02 / 0.9) + 0.02 / 0.9, math.sqrt(0.02 / 0.09) + 0.02 / 0.09, 1.0]
    assert model.keep.tolist() == pytest.approx(expected)
    q = torch.tensor([900.0, 90.0, 10.0]) ** 0.75
    torch.testing.assert_close(model.log_q.exp(), q / q.sum())


def test_the_seed_decides_the_vectors() -> None:
    _, batch = Word2Vec.example()
    data: Dataset[Sequences] = Dataset(name="tensors", kind="text", train=batch)

    def vectors(seed: int) -> Tensor:
        torch.manual_seed(0)
        model, _ = Word2Vec.example()
        dc.fit(model, data, quiet=True, epochs=3, seed=seed)
        return model.vectors.detach()

    assert torch.equal(vectors(1), vectors(1))
    assert not torch.equal(vectors(1), vectors(2))


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "average"), [("skip_gram", True), ("cbow", True), ("cbow", False)])
def test_gensim_reaches_the_same_loss(scheme: Scheme, average: bool) -> None:
    """Both learn from the same sentences with the same settings; our loss judges both."""
    gensim = pytest.importorskip("gensim.models", reason="needs gensim, of deepcanon[oracles]")
    data = dc.load_data("text:words=5")
    vocab = data.sizes["vocab"]
    torch.manual_seed(0)
    ours = Word2Vec(vocab, latent=20, scheme=scheme, window=3, average=average)
    dc.fit(ours, data, quiet=True, epochs=6, lr=0.1, evaluate=False)
    sentences = [
        [str(word) for word in row[:length]]
        for row, length in zip(data.train.x.tolist(), data.train.lengths.tolist(), strict=True)
    ]
    peer = gensim.Word2Vec(
        sentences, vector_size=20, sg=int(scheme == "skip_gram"), window=3, negative=5, sample=1e-3, min_count=1,
        alpha=0.05, epochs=6, workers=1, seed=1, cbow_mean=int(average),
    )  # fmt: skip
    theirs = Word2Vec(vocab, latent=20, scheme=scheme, window=3, average=average)
    theirs.prepare([data.train])
    rows = [peer.wv.key_to_index[str(word)] for word in range(vocab)]
    theirs.vectors.data = torch.tensor(peer.wv.vectors[rows])
    theirs.contexts.data = torch.tensor(peer.syn1neg[rows])
    with torch.no_grad():
        mine, other, untrained = (
            float(total(model, data.split("valid")))
            for model in (ours, theirs, Word2Vec(vocab, 20, scheme=scheme, window=3, average=average))
        )
    assert mine < other + 0.05
    assert other < mine + 0.25
    assert mine < untrained - 1


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="scheme must be one of skip_gram, cbow"):
        Word2Vec(vocab=9, scheme="bag")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="objective must be one of negative, nce, importance, hierarchical"):
        Word2Vec(vocab=9, objective="hinge")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="draws must be at least 1"):
        Word2Vec(vocab=9, draws=0)
    with pytest.raises(UsageError, match=r"subsample is a share of the text: 0 or more \(got -0.1\)"):
        Word2Vec(vocab=9, subsample=-0.1)


@pytest.mark.slow
def test_words_that_belong_together_are_neighbors() -> None:
    """Opposites and partners stand in the same contexts; at random the rank would be half the vocabulary."""
    data = dc.load_data("text:words")
    torch.manual_seed(0)
    model = Word2Vec(vocab=data.sizes["vocab"])
    dc.fit(model, data, quiet=True, evaluate=False)
    pairs = (("true", "false"), ("read", "write"), ("start", "stop"), ("first", "second"), ("left", "right"),
             ("minimum", "maximum"), ("open", "close"), ("keys", "values"))  # fmt: skip
    ranks = [[word for word, _ in model.nearest(one, len(data.vocabulary) - 1)].index(other) for one, other in pairs]
    assert statistics.median(ranks) < len(data.vocabulary) / 100


def test_early_stopping_needs_no_pair_in_the_first_validation_windows() -> None:
    def windows(lengths: list[int]) -> Sequences:
        x = torch.randint(0, 40, (len(lengths), 6), generator=torch.Generator().manual_seed(0))
        return Sequences(x, torch.tensor(lengths))

    valid = windows([1] * 20 + [6] * 5)
    data = replace(dc.from_tensors(windows([6] * 20).x, lengths=torch.full((20,), 6)), valid=valid)
    fitted = dc.fit(Word2Vec(40, latent=4), data, epochs=2, patience=1, quiet=True)
    assert math.isfinite(fitted.valid["loss"])
    with pytest.raises(UsageError, match="validation gives nothing"):
        dc.fit(Word2Vec(40, latent=4), replace(data, valid=windows([1] * 20)), epochs=2, patience=1, quiet=True)
