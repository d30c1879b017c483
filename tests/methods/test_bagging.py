"""Bagging predicts by the mean of its members; each learns alone from a bootstrap sample that never changes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import deepcanon as dc
from deepcanon.core import GraphBatch, Labeled, Terms, UsageError
from deepcanon.core.toy import Toy
from deepcanon.methods.bagging import Bagging, occurrences
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.graphs.gcn import GCN


def examples(count: int) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(0))


def test_a_bootstrap_sample_is_poisson_and_independent_of_the_others() -> None:
    """Of one seed and several members, and of one member and several seeds."""
    drawn = [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)]
    counts = torch.stack([occurrences(torch.arange(20_000), member, seed) for member, seed in drawn])
    for each in counts:
        seen = torch.bincount(each, minlength=6)[:6].numpy()
        cells = np.append(seen, 20_000 - seen.sum())
        probabilities = np.append(stats.poisson.pmf(np.arange(6), 1), stats.poisson.sf(5, 1))
        assert stats.chisquare(cells, 20_000 * probabilities).pvalue > 1e-3
    correlation = np.corrcoef(counts.numpy())
    assert np.abs(correlation - np.eye(len(drawn))).max() < 0.03


def test_a_sample_depends_on_the_position_alone() -> None:
    places = torch.arange(200)
    order = torch.randperm(200)
    assert torch.equal(occurrences(places[order], 1), occurrences(places, 1)[order])
    assert torch.equal(occurrences(places[:7], 1), occurrences(places, 1)[:7])


class Tally(MLP):
    """A regression that counts how often it gets each of 1,000 examples, by their targets: 0.000, 0.001, ... 0.999."""

    def __init__(self, features: int, targets: int) -> None:
        super().__init__(features, targets=targets, hidden=())
        self.register_buffer("counts", torch.zeros(1000, dtype=torch.long))

    def loss(self, batch: Labeled) -> Terms:
        if self.training:
            self.get_buffer("counts").add_(torch.bincount((1000 * batch.y).round().long().flatten(), minlength=1000))
        return super().loss(batch)


@pytest.mark.parametrize("settings", [{"batch_size": 1000}, {"batch_size": 37}, {"batch_size": 100, "accumulate": 7}])
def test_rows_that_repeat_are_resampled_one_by_one(settings: dict[str, Any]) -> None:
    """A table of three binary columns: 1,000 rows, eight of them different.

    In a sample of as many rows as there are, each occurs as often as a binomial number of mean 1 says, the sum of them
    is 1,000 (here up to the square root of it), and 1 - 1/e of them occur at all.
    """
    x = (torch.arange(1000).unsqueeze(1) // torch.tensor([1, 2, 4]) % 2).float()
    torch.manual_seed(0)
    method = Bagging(Tally(features=3, targets=1), members=4)
    dc.fit(method, dc.from_tensors(x, torch.arange(1000) / 1000), epochs=2, quiet=True, seed=1, **settings)
    counts = torch.stack([member.get_buffer("counts") for member in method.members])
    assert bool((counts % 2 == 0).all())  # the second epoch has the sample of the first
    counts = counts // 2
    for i, each in enumerate(counts):
        assert torch.equal(each, occurrences(torch.arange(1000), i, int(method.seed)))
        assert abs(int(each.sum()) - 1000) < 4 * 1000**0.5
        assert float((each > 0).double().mean()) == pytest.approx(1 - 1 / np.e, abs=4 * (0.232 / 1000) ** 0.5)
        seen = np.append(torch.bincount(each, minlength=5)[:4].numpy(), int((each > 3).sum()))
        probabilities = np.append(stats.binom.pmf(np.arange(4), 1000, 1e-3), stats.binom.sf(3, 1000, 1e-3))
        assert stats.chisquare(seen, 1000 * probabilities / probabilities.sum()).pvalue > 1e-3


def test_another_seed_draws_other_samples_and_the_same_one_the_same() -> None:
    seeds = []
    for seed in (0, 0, 1):
        method = Bagging(MLP(features=2, classes=2, hidden=(4,)), members=2)
        dc.fit(method, dc.load_data("moons"), steps=1, seed=seed, quiet=True)
        seeds.append(int(method.seed))
    assert seeds[0] == seeds[1] != seeds[2]


def test_each_member_learns_as_it_would_alone_from_its_sample() -> None:
    """Full batches, so that the sample as a data set of its own gives the same steps; its size weighs its loss."""
    torch.manual_seed(0)
    method = Bagging(MLP(features=3, targets=1, hidden=(8,)), members=3)
    alone = [copy.deepcopy(member) for member in method.members]
    x = examples(50)
    data = dc.from_tensors(x, (x.sum(-1, keepdim=True)).sin())
    dc.fit(method, data, steps=15, batch_size=50, quiet=True, optimizer="sgd", lr=0.05)
    for i, (member, twin) in enumerate(zip(method.members, alone, strict=True)):
        times = occurrences(torch.arange(50), i, int(method.seed))
        sample = Labeled(x, x.sum(-1, keepdim=True).sin()).select(torch.arange(50).repeat_interleave(times))
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.05)
        for _ in range(15):
            optimizer.zero_grad()
            (twin.loss(sample)["mse"] * len(sample) / 50).backward()
            optimizer.step()
        for left, right in zip(member.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_the_prediction_is_the_mean_of_the_members() -> None:
    torch.manual_seed(0)
    method = Bagging(MLP(features=3, classes=4), members=3).eval()
    x = examples(6)
    shares = torch.stack([member.predict(x, how="mean") for member in method.members]).mean(0)  # type: ignore[operator]
    torch.testing.assert_close(method.predict(x, how="mean"), shares)
    torch.testing.assert_close(method(x).softmax(-1), shares)
    assert torch.equal(method.predict(x), shares.argmax(-1))
    y = torch.arange(6) % 4
    wanted = nn.functional.nll_loss(shares.log(), y)
    torch.testing.assert_close(method.loss(Labeled(x, y))["nll"], wanted)
    torch.testing.assert_close(method.metrics(Labeled(x, y))["nll"], wanted)
    regression = Bagging(MLP(features=3, targets=2), members=3)
    torch.testing.assert_close(regression.predict(x), torch.stack([each(x) for each in regression.members]).mean(0))
    torch.testing.assert_close(regression(x), regression.predict(x))


@pytest.mark.slow
def test_the_variance_of_the_mean_of_trained_members_is_the_formula() -> None:
    """Members that learn the mean of numbers with variance 1: a half of what their predictions vary by, they share.

    The mean over a bootstrap sample of T from N examples varies by 1/N + (1 - 1/N) / T, of which 1/N is what two
    members have in common; T is a Poisson number of mean N.
    """
    random = torch.Generator().manual_seed(0)
    sets, targets, members, examples = 100, 16, 4, 20
    method = Bagging(MLP(features=1, targets=targets, hidden=()), members=members)
    drawn = []
    for seed in range(sets):
        data = dc.from_tensors(torch.zeros(examples, 1), torch.randn(examples, targets, generator=random))
        dc.fit(
            method, data, steps=1, batch_size=examples, quiet=True, optimizer="sgd", lr=0.5, seed=seed
        )  # to the very minimum
        drawn.append(method.predictions(torch.zeros(1, 1))[:, 0].numpy())
    predictions = np.concatenate(drawn, axis=1)  # (members, sets x targets)
    sizes = np.arange(1, 100)
    probabilities = stats.poisson.pmf(sizes, examples)
    variance = 1 / examples + (1 - 1 / examples) * float(probabilities @ (1 / sizes))
    rho = 1 / examples / variance
    assert rho == pytest.approx(0.5, abs=0.03)
    error = np.sqrt(2 / predictions.shape[1])
    correlations = np.asarray(np.corrcoef(predictions))[np.triu_indices(members, 1)]
    assert float(correlations.mean()) == pytest.approx(rho, abs=3 * error)
    for size in range(1, members + 1):
        wanted = rho * variance + (1 - rho) * variance / size
        assert float(predictions[:size].mean(0).var()) == pytest.approx(wanted, rel=3 * error)


def test_one_member_on_all_data_is_the_plain_model_bit_for_bit() -> None:
    ends = []
    for arguments in (None, {"members": 1, "bootstrap": False}, {"members": 1, "bootstrap": True}):
        torch.manual_seed(1)
        model = MLP(features=2, classes=2, hidden=(8,), dropout=0.1)
        method = model if arguments is None else Bagging(model, **arguments)  # type: ignore[arg-type]
        dc.fit(method, dc.load_data("moons"), steps=6, batch_size=32, quiet=True)
        ends.append(copy.deepcopy(model.state_dict()))
    plain, idle, bootstrapped = ends
    assert all(torch.equal(plain[name], idle[name]) for name in plain)
    assert not torch.equal(plain["net.0.weight"], bootstrapped["net.0.weight"])


def test_a_batch_without_any_example_of_the_sample_teaches_nothing() -> None:
    method = Bagging(MLP(features=3, classes=2), members=1)
    x = examples(50)
    left = (occurrences(torch.arange(50), 0) == 0).nonzero()[0]
    loss = method.train().loss(Labeled(x, torch.arange(50) % 2).select(left))["nll"]
    loss.backward()
    assert loss == 0
    assert all(not parameter.grad.any() for parameter in method.parameters())  # type: ignore[union-attr]


def test_members_are_initialized_apart_and_the_mean_beats_the_typical_member() -> None:
    torch.manual_seed(0)
    data = dc.load_data("digits")
    method = Bagging(MLP(features=64, classes=10, hidden=(32,)), members=5)
    first, second, *_ = method.members
    assert not torch.equal(first.get_parameter("net.0.weight"), second.get_parameter("net.0.weight"))
    result = dc.fit(method, data, steps=60, lr=0.005, quiet=True)
    alone = [dc.evaluate(member, data.split("test"))["nll"] for member in method.members]
    assert result.test["nll"] < float(np.mean(alone))


def test_the_turns_say_whose_they_are() -> None:
    assert [turn.name for turn in Bagging(MLP(features=1, targets=1), members=2).turns()] == ["member-1", "member-2"]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="members must be at least 1"):
        Bagging(MLP(features=2, classes=2), members=0)
    with pytest.raises(UsageError, match="averages predictions; Toy has no predict"):
        Bagging(Toy(2))
    model, batch = GCN.example()
    assert isinstance(batch, GraphBatch)
    with pytest.raises(UsageError, match="a bootstrap sample needs labeled examples"):
        Bagging(model).train().training_loss(batch)  # type: ignore[arg-type]
