"""Bagging predicts by the mean of its members; each learns alone from a bootstrap sample that never changes."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import deepcanon as dc
from deepcanon.core import GraphBatch, Labeled, UsageError
from deepcanon.core.toy import Toy
from deepcanon.methods.bagging import Bagging, occurrences
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.graphs.gcn import GCN


def examples(count: int) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(0))


def test_a_bootstrap_sample_is_poisson_and_independent_of_the_others() -> None:
    x = examples(20_000)
    counts = torch.stack([occurrences(x, member) for member in range(3)])
    for each in counts:
        seen = torch.bincount(each, minlength=6)[:6].numpy()
        cells = np.append(seen, 20_000 - seen.sum())
        probabilities = np.append(stats.poisson.pmf(np.arange(6), 1), stats.poisson.sf(5, 1))
        assert stats.chisquare(cells, 20_000 * probabilities).pvalue > 1e-3
    correlation = np.corrcoef(counts.numpy())
    assert np.abs(correlation - np.eye(3)).max() < 0.03


def test_a_sample_depends_on_the_example_alone() -> None:
    x = examples(200)
    order = torch.randperm(200)
    assert torch.equal(occurrences(x[order], 1), occurrences(x, 1)[order])
    assert torch.equal(occurrences(x[:7], 1), occurrences(x, 1)[:7])
    assert not torch.equal(occurrences(x.flip(1), 1), occurrences(x, 1))


def test_each_member_learns_as_it_would_alone_from_its_sample() -> None:
    """Full batches, so that the sample as a data set of its own gives the same steps; its size weighs its loss."""
    torch.manual_seed(0)
    method = Bagging(MLP(features=3, targets=1, hidden=(8,)), members=3)
    alone = [copy.deepcopy(member) for member in method.members]
    x = examples(50)
    data = dc.from_tensors(x, (x.sum(-1, keepdim=True)).sin())
    dc.fit(method, data, steps=15, batch_size=50, quiet=True, optimizer="sgd", lr=0.05)
    for i, (member, twin) in enumerate(zip(method.members, alone, strict=True)):
        times = occurrences(x, i)
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


def test_the_variance_of_the_mean_of_trained_members_is_the_formula() -> None:
    """Members that learn the mean of numbers with variance 1: a half of what their predictions vary by, they share.

    The mean over a bootstrap sample of T from N examples varies by 1/N + (1 - 1/N) / T, of which 1/N is what two
    members have in common; T is a Poisson number of mean N.
    """
    random = torch.Generator().manual_seed(0)
    sets, targets, members, examples = 100, 16, 4, 20
    method = Bagging(MLP(features=1, targets=targets, hidden=()), members=members)
    drawn = []
    for _ in range(sets):
        x = 1e-6 * torch.randn(examples, 1, generator=random)  # makes examples differ, but says nothing of the numbers
        data = dc.from_tensors(x, torch.randn(examples, targets, generator=random))
        dc.fit(method, data, steps=1, batch_size=examples, quiet=True, optimizer="sgd", lr=0.5)  # to the very minimum
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
    (left,) = x[occurrences(x, 0) == 0][:1].split(1)
    loss = method.train().loss(Labeled(left, torch.tensor([0])))["nll"]
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
