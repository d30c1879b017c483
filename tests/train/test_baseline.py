"""Baselines that use no input: scikit-learn's dummies, torch's distributions, and fitted on training data only."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, root_mean_squared_error

import deepcanon as dc
from deepcanon.core import Batch, Graph, Graphs, Labeled, Sequences
from deepcanon.train.baseline import EqualEdges, fit_baseline


def test_the_class_prior_is_the_dummy_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    train, test = random.choice(3, 200, p=[0.7, 0.2, 0.1]), random.choice(3, 100, p=[0.3, 0.4, 0.3])
    dummy = DummyClassifier(strategy="prior").fit(np.zeros((200, 1)), train)
    model, _ = dc.find("mlp").example()
    found = fit_baseline(model, Labeled(torch.zeros(200, 1), torch.from_numpy(train)), {"classes": 3})
    assert found is not None
    scores = found.scores(Labeled(torch.zeros(100, 1), torch.from_numpy(test)))
    assert scores["nll"] == pytest.approx(log_loss(test, dummy.predict_proba(np.zeros((100, 1)))))
    assert scores["accuracy"] == accuracy_score(test, dummy.predict(np.zeros((100, 1))))
    assert (scores["balanced_accuracy"], scores["roc_auc"]) == pytest.approx((1 / 3, 0.5))


def test_the_mean_is_the_dummy_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    train, test = random.normal(size=(50, 1)), random.normal(1, 2, size=(30, 1))
    mean = DummyRegressor().fit(np.zeros((50, 1)), train).predict(np.zeros((30, 1)))
    model, _ = dc.find("linear_regression").example()
    found = fit_baseline(model, Labeled(torch.zeros(50, 1), torch.from_numpy(train)), {"targets": 1})
    assert found is not None
    assert found.scores(Labeled(torch.zeros(30, 1), torch.from_numpy(test))) == pytest.approx(
        {
            "mse": root_mean_squared_error(test, mean) ** 2,
            "mae": mean_absolute_error(test, mean),
            "rmse": root_mean_squared_error(test, mean),
            "r2": r2_score(test, mean),
        }
    )


def test_the_unigram_counts_the_tokens_that_are_predicted() -> None:
    """The first token of a row is given, and padding is nothing: of two rows three 0 and one 1 count."""
    model, _ = dc.find("gpt").example()
    rows = Sequences(torch.tensor([[2, 0, 0, 1], [2, 0, 2, 2]]), torch.tensor([4, 2]))
    found = fit_baseline(model, rows, {"vocab": 3})
    assert found is not None
    assert found.scores(rows)["nll"] == pytest.approx(-(3 * math.log(4 / 7) + math.log(2 / 7)) / 4)


def test_marginals_of_reals_are_independent_gaussians() -> None:
    random = np.random.default_rng(0)
    train, test = (random.normal(size=(count, 3)) * [1, 5, 0.1] + 2 for count in (400, 100))
    model, _ = dc.find("realnvp").example()
    found = fit_baseline(model, Batch(torch.from_numpy(train)), {})
    assert found is not None
    density = multivariate_normal(train.mean(0), np.diag(train.var(0)))
    assert found.scores(Batch(torch.from_numpy(test)))["nll"] == pytest.approx(-density.logpdf(test).mean())
    constant = Batch(torch.cat([torch.randn(9, 1), torch.ones(9, 1)], 1))
    assert fit_baseline(model, constant, {}) is None  # its density has no bound


def test_marginals_of_videos_are_those_of_their_frames_without_the_padding() -> None:
    model, batch = dc.find("video_flow").example()
    padded = replace(batch, x=batch.x.clone())
    padded.x[torch.arange(3) >= batch.lengths.unsqueeze(1)] = math.nan
    found = fit_baseline(model, padded, {})
    assert found is not None
    frames = torch.cat([x[:length] for x, length in zip(batch.x, batch.lengths, strict=True)]).flatten(1).double()
    density = multivariate_normal(frames.mean(0), np.diag(frames.var(0, correction=0)))
    assert found.scores(padded)["nll"] == pytest.approx(-density.logpdf(frames).mean())


def test_marginals_of_bits_are_a_share_of_each_pixel() -> None:
    train = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    model, _ = dc.find("made").example()
    found = fit_baseline(model, Batch(train), {})
    assert found is not None
    expected = -math.log(4 / 5) - math.log(3 / 5)  # by Laplace's rule, and never infinite
    assert found.scores(Batch(torch.tensor([[0.0, 1.0]])))["nll"] == pytest.approx(expected)
    assert found.scores(Batch(torch.tensor([[0.0, 2.0]])))["nll"] == math.inf


def test_models_without_a_likelihood_have_no_baseline() -> None:
    for name in ("word2vec", "gan", "autoencoder", "score_matching"):
        model, batch = dc.find(name).example()
        assert fit_baseline(model, batch, {}) is None


def test_edges_at_random_are_the_random_graph_of_so_many_edges() -> None:
    edges = [(0, 1), (1, 0), (1, 2), (2, 1)]
    path, pair = Graph(torch.tensor(edges).T, 3), Graph(torch.tensor([[0, 1], [1, 0]]), 2)
    train = Graphs(torch.ones(8, 1), Graph.union([path, path, pair]))
    share = (5 + 1) / (7 + 2)  # 5 of 7 pairs have an edge, by Laplace's rule
    of_path = math.log(3 / 8) + 2 * math.log(share) + math.log(1 - share)  # of 8: 5 possible numbers, each once more
    of_pair = math.log(2 / 8) + math.log(share)
    assert EqualEdges(train).scores(train)["nll"] == pytest.approx(-(2 * of_path + of_pair) / 3)
