"""Turns are played as declared: gradients, clipping, accumulation, freezing, games, rules by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core import Absorb, Batch, Descend, Model, Recipe, Terms, Turn, UsageError
from deepcanon.train.distributed import World
from deepcanon.train.settings import resolve_settings
from deepcanon.train.steps import Descender, clip_by_norm, players


class Line(Model[Batch]):
    """A linear map of x to its own sum, whose gradient is known in closed form."""

    recipe = Recipe(optimizer="sgd", lr=0.1, batch_size=8, epochs=1)

    def __init__(self, features: int, by_hand: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, features, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.by_hand = by_hand

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(3), Batch(torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64))

    def residual(self, batch: Batch) -> Tensor:
        return batch.x @ self.weight + self.bias - batch.x.sum(-1)

    def loss(self, batch: Batch) -> Terms:
        return {"half_square": 0.5 * self.residual(batch).square().mean()}

    @torch.no_grad()
    def gradient(self, batch: Batch) -> Callable[[], Terms]:
        residual = self.residual(batch)
        self.weight.grad = (residual[:, None] * batch.x).mean(0)
        self.bias.grad = residual.mean()
        return lambda: self.loss(batch)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.parameters(), gradient=self.gradient if self.by_hand else None)]


def player(model: Model[Any], **settings: Any) -> Descender:
    (only,) = players(model, resolve_settings(model.recipe, **settings), World())
    assert isinstance(only, Descender)
    return only


def test_one_step_is_the_gradient_in_closed_form() -> None:
    model, batch = Line.example()
    before, residual = model.weight.detach().clone(), model.residual(batch).detach()
    player(model).play(batch, batch, 0.5, False)
    expected = before - 0.1 * 0.5 * (residual[:, None] * batch.x).mean(0)
    torch.testing.assert_close(model.weight.detach(), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("parts", [2, 5, 12, 50])
def test_accumulation_is_one_big_batch(by_hand: bool, parts: int) -> None:
    _, batch = Line.example()
    whole, split = Line(3, by_hand), Line(3, by_hand)
    terms = player(whole).play(batch, batch, 1.0, True)
    parted = player(split, accumulate=parts).play(batch, batch, 1.0, True)
    torch.testing.assert_close(split.weight, whole.weight, rtol=0, atol=1e-14)
    torch.testing.assert_close(parted["half_square"], terms["half_square"], rtol=0, atol=1e-14)


def test_a_gradient_by_hand_is_the_gradient() -> None:
    _, batch = Line.example()
    automatic, manual = Line(3), Line(3, by_hand=True)
    for model in (automatic, manual):
        player(model).play(batch, batch, 1.0, False)
    torch.testing.assert_close(manual.weight, automatic.weight, rtol=0, atol=1e-15)
    torch.testing.assert_close(manual.bias, automatic.bias, rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e25, math.nan])
def test_clipping_by_norm_is_torchs(scale: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours, theirs = ([torch.zeros(n, 3, dtype=dtype, requires_grad=True) for n in (1, 40, 2)] for _ in range(2))
    for one, other in zip(ours[:2], theirs, strict=False):  # one of them has no gradient
        one.grad = scale * torch.randn_like(one)
        other.grad = one.grad.clone()
    wanted = torch.nn.utils.clip_grad_norm_(theirs, 0.5)
    torch.testing.assert_close(clip_by_norm(ours, 0.5), wanted, equal_nan=True)
    for one, other in zip(ours[:2], theirs, strict=False):
        torch.testing.assert_close(one.grad, other.grad, equal_nan=True)
    assert ours[2].grad is None


def test_clipping_by_norm_and_by_value() -> None:
    _, batch = Line.example()
    free, by_norm, by_value, loose = Line(3), Line(3), Line(3), Line(3)
    player(free, lr=1.0).play(batch, batch, 1.0, False)
    step = torch.cat([Line(3).weight - free.weight, (Line(3).bias - free.bias)[None]]).detach()
    clipper = player(by_norm, lr=1.0, clip="norm:0.01")
    clipper.play(batch, batch, 1.0, False)
    taken = torch.cat([Line(3).weight - by_norm.weight, (Line(3).bias - by_norm.bias)[None]]).detach()
    torch.testing.assert_close(taken, step * 0.01 / step.norm(), rtol=1e-4, atol=0)
    assert clipper.norm is not None
    torch.testing.assert_close(clipper.norm.detach(), step.norm())
    player(by_value, lr=1.0, clip="value:0.3").play(batch, batch, 1.0, False)
    taken = torch.cat([Line(3).weight - by_value.weight, (Line(3).bias - by_value.bias)[None]]).detach()
    torch.testing.assert_close(taken, step.clamp(-0.3, 0.3), rtol=0, atol=1e-12)
    assert not torch.equal(taken, step)
    player(loose, lr=1.0, clip="value:1e9").play(batch, batch, 1.0, False)
    assert torch.equal(loose.weight, free.weight), "a limit that is never reached changes nothing"


def test_frozen_parameters_stay() -> None:
    model, batch = Line.example()
    before = model.weight.detach().clone()
    dc.fit(model, dc.from_tensors(batch.x), quiet=True, freeze=("weig*",))
    assert torch.equal(model.weight, before)
    assert model.bias.item() != 0
    with pytest.raises(UsageError, match="matches no parameter of Line"):
        dc.fit(Line(3), dc.from_tensors(batch.x), quiet=True, freeze=("wheel",))
    with pytest.raises(UsageError, match="frozen"):
        dc.fit(Line(3), dc.from_tensors(batch.x), quiet=True, freeze=("*",))


class Game(Line):
    """Two players and a rule, each with its own part."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.seen: Tensor
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))
        self.grads_wanted: list[tuple[bool, bool]] = []
        self.steps_of_bias = 0

    def watched(self, batch: Batch) -> Terms:
        self.grads_wanted.append((self.weight.requires_grad, self.bias.requires_grad))
        return self.loss(batch)

    def count(self) -> None:
        self.steps_of_bias += 1

    def absorb(self, batch: Batch) -> Terms:
        self.seen += len(batch)
        return {"seen": self.seen.clone()}

    def turns(self) -> Sequence[Turn[Batch]]:
        return [
            Descend(self.watched, [self.weight], name="weight", lr=0.2),
            Descend(self.watched, [self.bias], name="bias", every=3, share=(0.5, 1.0), after=self.count),
            Absorb(self.absorb, name="rule"),
        ]


def test_turns_of_a_game_touch_only_their_own_parameters() -> None:
    model = Game(3)
    _, batch = Line.example()
    dc.fit(model, dc.from_tensors(batch.x), quiet=True, steps=12, batch_size=12)
    assert model.steps_of_bias == 2, "every third step of the second half: 9 and 12"
    assert model.seen == 12 * 12
    assert model.grads_wanted.count((True, False)) == 12
    assert model.grads_wanted.count((False, True)) == 2
    assert len(model.grads_wanted) == 14
    assert model.weight.requires_grad
    assert model.bias.requires_grad


def test_a_turns_own_rate_keeps_its_proportion_when_the_caller_sets_another() -> None:
    weight, bias, _ = players(Game(3), resolve_settings(Game.recipe, lr=0.05), World())
    assert isinstance(weight, Descender)
    assert isinstance(bias, Descender)
    assert weight.lr == pytest.approx(0.1)
    assert bias.lr == pytest.approx(0.05)


def test_lbfgs_is_no_special_case() -> None:
    model, batch = Line.example()
    dc.fit(
        model,
        dc.from_tensors(batch.x),
        quiet=True,
        optimizer="lbfgs:line_search_fn=strong_wolfe",
        steps=3,
        batch_size=12,
    )
    torch.testing.assert_close(model.weight.detach(), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-5)


def test_a_turn_without_parameters_is_refused() -> None:
    with pytest.raises(UsageError, match="Absorb"):
        Descend(Line(3).loss, [])


def test_terms_of_the_same_name_are_told_apart_by_their_turn() -> None:
    result = dc.fit(Game(3), dc.from_tensors(Line.example()[1].x), quiet=True, steps=12, batch_size=12)
    last = [record for record in result.history if record["kind"] == "step"][-1]
    assert {"half_square", "bias.half_square", "seen"} == set(last["terms"])


class Table(Model[Batch]):
    """A table whose rows are drawn towards given values; the gradient holds only the rows that the batch names."""

    recipe = Recipe(optimizer="sgd", lr=0.5, batch_size=8, epochs=1)

    def __init__(self, rows: int, sparse: bool) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.arange(2.0 * rows, dtype=torch.float64).view(rows, 2))
        self.sparse = sparse

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(9, sparse=True), Batch(torch.tensor([1, 4, 4, 7, 1, 4, 0, 7]).unsqueeze(1))

    def loss(self, batch: Batch) -> Terms:
        chosen = nn.functional.embedding(batch.x.squeeze(1), self.rows, sparse=self.sparse)
        return {"half_square": 0.5 * chosen.square().sum(1).mean()}


@pytest.mark.parametrize("clip", [None, "norm:0.5", "value:0.1"])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize(
    ("optimizer", "by_rows"),
    [
        ("sgd:fused=false", True), ("sgd", False), ("sgd:fused=false,momentum=0.9", False),
        ("sgd:fused=false,weight_decay=0.1", False), ("adagrad", False),
        ("adam", False), ("rmsprop", False),
    ],
)  # fmt: skip
def test_a_sparse_gradient_trains_as_a_dense_one(
    optimizer: str, by_rows: bool, accumulate: int, clip: str | None
) -> None:
    _, batch = Table.example()
    trained, norms = [], []
    for sparse in (True, False):
        model = Table(9, sparse)
        settings = resolve_settings(model.recipe, optimizer=optimizer, lr=0.1, accumulate=accumulate, clip=clip)
        (player,) = players(model, settings, World())
        for _ in range(4):
            player.play(batch, batch, 1.0, want_norm=True)
        assert player.norm is not None
        norms.append(player.norm)
        trained.append(model.rows.detach())
        kept = model.rows.grad is not None and model.rows.grad.is_sparse
        assert kept == (sparse and by_rows and clip is None)
    torch.testing.assert_close(*trained)
    torch.testing.assert_close(*norms)


@pytest.mark.parametrize("accumulate", [1, 2, 4])
@pytest.mark.parametrize("name", ["lstm", "gpt", "word2vec"])
def test_sequences_in_which_nothing_is_predicted_teach_nothing(name: str, accumulate: int) -> None:
    x = torch.arange(24).view(4, 6) % 5
    data = dc.data.of(x, lengths=[1, 1, 1, 1])
    options: dict[str, dict[str, Any]] = {"gpt": {"length": 5}, "word2vec": {"subsample": 0.0}}
    torch.manual_seed(0)
    model = catalogue.find(name)(vocab=5, **options.get(name, {}))
    before = [parameter.clone() for parameter in model.parameters()]
    dc.fit(model, data, steps=3, batch_size=4, accumulate=accumulate, quiet=True)
    assert all(map(torch.equal, before, model.parameters()))
    some = dc.data.of(x, lengths=[1, 1, 6, 6])
    dc.fit(model, some, steps=3, batch_size=2, accumulate=accumulate, quiet=True)
    assert not all(map(torch.equal, before, model.parameters()))
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())


@pytest.mark.parametrize("accumulate", [1, 4])
def test_series_that_end_at_their_forecast_origin_teach_nothing(accumulate: int) -> None:
    data = dc.data.of(torch.randn(4, 9, 1), lengths=9, origins=[9, 9, 9, 4])
    model = catalogue.find("deepar")(features=1, units=4, layers=1, head="gaussian")
    dc.fit(model, data, epochs=2, batch_size=1 if accumulate == 1 else 4, accumulate=accumulate, quiet=True)
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())
    once, apart = (dc.evaluate(model, data.train, size=size)["nll"] for size in (4, 1))
    assert once == pytest.approx(apart)
