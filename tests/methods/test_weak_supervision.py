"""The label model is Bayes' rule with the tables that EM finds, and what it says of planted sources is right."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError, UsageError, Voted
from deepcanon.core.toy import Toy
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.core.voted import majority
from deepcanon.data.transforms.planted_votes import drawn
from deepcanon.methods._label_model import LabelModel
from deepcanon.methods.weak_supervision import WeakSupervision
from deepcanon.models.feedforward.mlp import MLP


def test_labels_are_bayes_rule_over_all_votes() -> None:
    """Three sources, two of them a pair, two classes and abstentions: all 27 votes by enumeration."""
    torch.manual_seed(0)
    model = LabelModel(2, 3).double()
    model.prior.copy_(torch.tensor([0.3, 0.7], dtype=torch.float64).log())
    model.tables.copy_(torch.randn(3, 2, 3, dtype=torch.float64).log_softmax(-1))
    model.joint.copy_(torch.randn(3, 2, 9, dtype=torch.float64).log_softmax(-1).view(3, 2, 3, 3))
    model.partner.copy_(torch.tensor([2, -1, 0]))
    votes = torch.tensor(list(product((-1, 0, 1), repeat=3)))
    joint = np.zeros((27, 2))
    for row, (a, b, c) in enumerate(votes.tolist()):
        for y in range(2):
            pair = model.joint[0, y, a + 1, c + 1].exp().item()
            joint[row, y] = model.prior[y].exp().item() * model.tables[1, y, b + 1].exp().item() * pair
    assert joint.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(model(votes).numpy(), joint / joint.sum(1, keepdims=True), rtol=1e-10)


@pytest.mark.slow
def test_the_likelihood_never_falls_and_accuracies_agree_with_the_closed_form_of_triplets() -> None:
    """Of binary votes that are symmetric and independent, E[v_i v_j] = a_i a_j: three moments give each a."""
    random = torch.Generator().manual_seed(0)
    right = torch.tensor([0.9, 0.75, 0.6, 0.8, 0.7])
    y = torch.randint(2, (20_000,), generator=random)
    votes = torch.where(torch.rand(20_000, 5, generator=random) < right, y.unsqueeze(1), 1 - y.unsqueeze(1))
    model = LabelModel(2, 5).double()
    found = model.fit(votes, pairs=False)
    assert all(later >= earlier - 1e-7 for earlier, later in pairwise(found))
    spins = (2 * votes - 1).double()
    moments = (spins.T @ spins / len(spins)).numpy()
    for i, j, k in ((0, 1, 3), (1, 0, 3), (3, 0, 1)):
        of_triplet = np.sqrt(moments[i, j] * moments[i, k] / moments[j, k])
        table = model.tables[i].exp()
        of_model = 2 * float((model.prior.exp() * torch.stack([table[0, 1], table[1, 2]])).sum()) - 1
        assert of_model == pytest.approx(of_triplet, abs=0.02)


@pytest.mark.slow
def test_a_source_that_copies_another_is_found_and_counts_once() -> None:
    random = torch.Generator().manual_seed(1)
    y = torch.randint(4, (6_000,), generator=random)
    votes = drawn(y, 4, 6, random)
    model = LabelModel(4, 6)
    model.fit(votes)
    assert model.partner.tolist() == [1, 0, -1, -1, -1, -1]
    heard = (votes >= 0).any(1)
    ours = (model(votes).argmax(1) == y)[heard].double().mean().item()
    alone = LabelModel(4, 6)
    alone.fit(votes, pairs=False)
    assert alone.partner.tolist() == [-1] * 6
    assert ours > (majority(votes) == y)[heard].double().mean().item() + 0.03
    assert ours >= (alone(votes).argmax(1) == y)[heard].double().mean().item()
    for source, share in enumerate(np.linspace(0.4, 0.85, 6)):
        if source > 1:  # of the others, the share of right votes among those that are given
            table = model.tables[source].exp()[:, 1:]
            assert float((table.diagonal() / table.sum(1)).mean()) == pytest.approx(share, abs=0.03)


@pytest.mark.slow
def test_a_classifier_learns_more_from_the_label_model_than_from_the_majority() -> None:
    gains = []
    for seed in range(2):
        data = dc.load_data(f"digits:votes=6,seed={seed}")
        accuracy = []
        for labels in ("majority", "label model"):
            torch.manual_seed(seed)
            inner = MLP(features=64, classes=10, hidden=(64,))
            method = WeakSupervision(inner, sources=6, labels=labels)
            accuracy.append(dc.fit(method, data, epochs=15, seed=seed, quiet=True).test["accuracy"])
        gains.append(accuracy[1] - accuracy[0])
    assert np.mean(gains) > 0


@pytest.mark.slow
def test_votes_in_the_columns_of_a_table(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2))
    y = np.where(x.sum(1) > 0, "up", "down")
    other = {"up": "down", "down": "up"}
    lines = ["a,b,one,two,three,way"]
    for row in range(200):
        said = [y[row] if random.uniform() < 0.8 else other[y[row]] for _ in range(3)]
        said = ["" if random.uniform() < 0.2 else vote for vote in said]
        lines.append(f"{x[row, 0]},{x[row, 1]},{','.join(said)},{y[row]}")
    file = tmp_path / "voted.csv"
    file.write_text("\n".join(lines))
    data = dc.load_data(file, target="way", votes="one,two,three")
    assert isinstance(data.train, Voted)
    assert dict(data.sizes) == {"features": 2, "classes": 2, "sources": 3}
    assert set(data.train.votes.unique().tolist()) == {-1, 0, 1}
    run = dc.Run.train(
        "weak_supervision", str(file), target="way", votes="one,two,three", out=tmp_path / "run", steps=60, quiet=True
    )
    new = tmp_path / "new.csv"
    new.write_text("a,b\n3,3\n-3,-3\n")
    assert list(run.predict(str(new))["prediction"]) == ["up", "down"]
    lines[5] = lines[5].rsplit(",", 4)[0] + ",sideways,,up,up"
    file.write_text("\n".join(lines))
    with pytest.raises(DataError, match="'sideways' is not a class of 'way', which has down, up; leave a cell empty"):
        dc.load_data(file, target="way", votes="one,two,three")
    with pytest.raises(UsageError, match="name its column, too"):
        dc.load_data(file, votes="one,two")


def test_labeling_functions_in_python_vote_as_their_votes_do() -> None:
    x = np.array([[1.0, 3.0], [-2.0, 7.0], [4.0, -1.0]])

    def right(row: np.ndarray) -> int:
        return int(row[0] > 0)

    def high(row: np.ndarray) -> int | None:
        return 2 if row[1] > 5 else None

    data = dc.data.of(x, votes=[right, high, lambda row: np.int64(0)])
    assert data.train.votes.tolist() == [[1, -1, 0], [0, 2, 0], [1, -1, 0]]
    assert data.train.y.tolist() == dc.data.of(x, votes=data.train.votes).train.y.tolist()
    with pytest.raises(DataError, match=r"a class, a whole number, or None; max gave"):
        dc.data.of(x, votes=[right, np.max])


def test_votes_of_arrays_and_what_is_refused() -> None:
    x, votes = torch.zeros(4, 2), torch.tensor([[0, 1, -1], [1, 1, 0], [-1, -1, 2], [0, 0, 0]])
    data = dc.data.of(x, votes=votes)
    assert dict(data.sizes) == {"features": 2, "classes": 3, "sources": 3}
    assert data.train.y.tolist() == [0, 1, 2, 0]
    with pytest.raises(DataError, match="all sources abstain on 1 of 4 examples"):
        dc.data.of(x, votes=votes.index_fill(0, torch.tensor([1]), -1))
    with pytest.raises(DataError, match="votes are classes"):
        dc.data.of(x, votes=votes[:3])
    with pytest.raises(DataError, match="votes stand in place of y"):
        dc.data.of(x, votes[:, 0].clamp_min(0), votes=votes)
    with pytest.raises(UsageError, match="sources must be at least 3"):
        WeakSupervision(ToyClassifier(2, 2), sources=2)
    with pytest.raises(UsageError, match="Toy does not predict classes"):
        WeakSupervision(Toy(2), sources=3)
    with pytest.raises(UsageError, match="votes are of at least 4 sources"):
        dc.load_data("digits:votes=3")
    with pytest.raises(UsageError, match="votes are written digits:votes=6"):
        dc.load_data("digits:votes=many")
    with pytest.raises(UsageError, match="labels are hidden last: write ':binary' before ':votes='"):
        dc.load_data("digits:votes=6:binary")
