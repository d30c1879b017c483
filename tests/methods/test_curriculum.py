"""A curriculum goes from easy to hard by the score given, at the pace given, and is the plain run if all are equal."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Labeled, Model, Terms, UsageError
from deepcanon.core.toy import Toy
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.curriculum import Curriculum
from deepcanon.models.feedforward.mlp import MLP


class Seeing(ToyClassifier):
    """Remembers the examples that its loss was computed on."""

    seen: Tensor

    def loss(self, batch: Labeled) -> Terms:
        self.seen = batch.x[:, 0]
        return super().loss(batch)


class Given(Curriculum):
    """Takes the first feature for the difficulty."""

    def hardness(self, batch: Labeled) -> Tensor:
        return batch.x[:, 0]


def shuffled(values: list[float]) -> Labeled:
    x = torch.tensor(values)[torch.randperm(len(values))]
    return Labeled(torch.stack([x, x], 1), torch.zeros(len(values), dtype=torch.long))


@pytest.mark.parametrize("begin", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("until", [0.5, 1.0])
def test_the_order_is_by_the_score_given_at_the_pace_given(begin: float, until: float) -> None:
    model = Seeing(2, 2)
    method = Given(model, begin=begin, until=until).train()
    batch = shuffled([float(i) for i in range(40)])
    (turn,) = method.turns()
    for progress in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0):
        method.progress = progress
        turn.loss(batch)  # type: ignore[attr-defined]
        count = math.ceil(40 * min(1, begin + (1 - begin) * progress / until))
        assert sorted(model.seen.tolist()) == list(range(count))


def test_examples_that_are_equally_hard_are_seen_together() -> None:
    model = Seeing(2, 2)
    method = Given(model, begin=0.1).train()
    method.loss(shuffled([1.0] * 10 + [2.0] * 10))
    assert model.seen.tolist() == [1.0] * 10
    method.loss(shuffled([3.0] * 20))
    assert len(model.seen) == 20


def test_loss_orders_as_the_losses_of_the_single_examples_do() -> None:
    torch.manual_seed(0)
    for model in (MLP(features=3, classes=4), MLP(features=3, targets=2)):
        y = torch.arange(12) % 4 if model.classes else torch.randn(12, 2)
        batch = Labeled(torch.randn(12, 3), y)
        with torch.no_grad():
            alone = [sum(model.loss(batch.select(torch.tensor([i]))).values()) for i in range(12)]
        hardness = Curriculum(model).hardness(batch)
        assert hardness.argsort().tolist() == torch.tensor(alone).argsort().tolist()
    assert Curriculum(model, difficulty="norm").hardness(batch).tolist() == batch.x.norm(dim=1).tolist()


@pytest.mark.parametrize("difficulty", ["uniform", "equal"])
def test_a_uniform_score_is_the_plain_run_bit_for_bit(difficulty: str) -> None:
    class Equal(Curriculum):
        def hardness(self, batch: Labeled) -> Tensor:
            return torch.ones(len(batch))

    ends = []
    wraps: tuple[Any, ...] = (
        lambda it: it,
        (lambda it: Curriculum(it, difficulty="uniform")) if difficulty == "uniform" else Equal,
        Curriculum,
    )
    for wrap in wraps:
        torch.manual_seed(1)
        model = MLP(features=2, classes=2, hidden=(8,), dropout=0.1)
        method: Model[Any] = wrap(model)
        dc.fit(method, dc.load_data("moons"), steps=6, batch_size=32, quiet=True)
        ends.append(copy.deepcopy(model.state_dict()))
    plain, uniform, ordered = ends
    assert all(torch.equal(plain[name], uniform[name]) for name in plain)
    assert not torch.equal(plain["net.0.weight"], ordered["net.0.weight"])


def test_held_out_examples_all_count() -> None:
    method, batch = Curriculum.example()
    method.eval()
    assert torch.equal(method.loss(batch)["nll"], method.model.loss(batch)["nll"])


def test_wrong_arguments_are_refused() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"begin": 0.0}, "begin is a share, above 0"),
        ({"until": 1.5}, "until is a share, above 0 and at most 1"),
        ({"difficulty": "length"}, "difficulty must be one of loss, norm, uniform"),
    )
    for arguments, words in wrong:
        with pytest.raises(UsageError, match=words):
            Curriculum(ToyClassifier(2, 2), **arguments)
    with pytest.raises(UsageError, match="Toy has no predict"):
        Curriculum(Toy(2))
    kind: Literal["norm"] = "norm"
    assert Curriculum(Toy(2), difficulty=kind).share() == pytest.approx(0.3)


def test_scores_of_ones_own_order_all_the_data() -> None:
    """At the share c of the pace, an example is used if its score is among the lowest c of the whole data set."""
    count = 60
    scores = torch.randperm(count, generator=torch.Generator().manual_seed(0)).double()
    data = Labeled(torch.stack([scores, scores], 1).float(), torch.zeros(count, dtype=torch.long))
    model = Seeing(2, 2)
    method = Curriculum(model, "given", begin=0.1, until=1.0, scores=tuple(scores.tolist())).train()
    (turn,) = method.turns()
    for progress in (0.0, 0.3, 0.9, 1.0):
        method.progress = progress
        limit = math.ceil(method.share() * count)
        for places in torch.arange(count).split(7):
            batch = data.select(places)
            model.seen = torch.zeros(0)
            terms = turn.loss(batch)  # type: ignore[attr-defined]
            easy = scores[places] < limit
            if bool(easy.any()):
                assert model.seen.tolist() == scores[places][easy].tolist()
            else:
                assert float(terms["nll"].detach()) == 0


def test_equal_scores_are_the_plain_run_bit_for_bit() -> None:
    data = dc.load_data("moons")
    torch.manual_seed(0)
    plain = MLP(features=2, classes=2, hidden=(4,))
    method = Curriculum(copy.deepcopy(plain), "given", scores=(1.0,) * len(data.train))
    for model in (plain, method):
        dc.fit(model, data, quiet=True, steps=6)
    for ours, theirs in zip(method.model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_scores_are_one_for_each_example() -> None:
    with pytest.raises(UsageError, match="scores belong to the difficulty 'given'"):
        Curriculum(ToyClassifier(2, 2), scores=(1.0,))
    with pytest.raises(UsageError, match="scores belong to the difficulty 'given'"):
        Curriculum(ToyClassifier(2, 2), "given")
    method = Curriculum(ToyClassifier(2, 2), "given", scores=(1.0, 2.0)).train()
    with pytest.raises(UsageError, match="each training example needs a score; there are 2"):
        method.loss(shuffled([1.0, 2.0, 3.0]))
