"""A cut takes exactly the smallest weights, the others are rewound to their initial values, the pruned stay zero."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon import pictures
from deepcanon.core import Labeled, Model, UsageError
from deepcanon.core.toy import Toy
from deepcanon.methods.pruning import Pruning
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.feedforward.mlp import MLP

WEIGHTS = ("net.0.weight", "net.2.weight")


def net(seed: int = 0, hidden: int = 16) -> MLP:
    torch.manual_seed(seed)
    return MLP(features=2, classes=2, hidden=(hidden,))


def magnitudes(model: Model[Any]) -> list[np.ndarray[Any, Any]]:
    return [model.get_parameter(name).detach().abs().numpy() for name in WEIGHTS]


def test_a_global_cut_takes_exactly_the_smallest_weights_of_all() -> None:
    model = net()
    before = magnitudes(model)
    method: Pruning[Any] = Pruning(model, scope="global")
    method.prune(0.7)
    every = np.sort(np.concatenate([part.ravel() for part in before]))
    count = round(0.7 * len(every))
    for part, old in zip(magnitudes(model), before, strict=True):
        assert ((part == 0) == (old <= every[count - 1])).all()
        assert (part[part > 0] == old[part > 0]).all()
    assert sum((part == 0).sum() for part in magnitudes(model)) == count
    assert model.get_parameter("net.0.bias").all()


def test_a_cut_by_layer_takes_the_same_share_of_each() -> None:
    model = net()
    before = magnitudes(model)
    method: Pruning[Any] = Pruning(model, scope="layer")
    method.prune(0.25)
    for part, old in zip(magnitudes(model), before, strict=True):
        count = round(0.25 * old.size)
        assert ((part == 0) == (old <= np.sort(old, axis=None)[count - 1])).all()
    method.prune(0.5)
    assert [(part == 0).mean() for part in magnitudes(model)] == [0.5, 0.5]


def test_by_default_no_layer_loses_all_its_weights() -> None:
    """The last layer of a wide net has smaller initial weights than the first: a cut of all together takes it whole."""
    torch.manual_seed(0)
    model = MLP(features=4, classes=2, hidden=(400,))
    together: Pruning[Any] = Pruning(copy.deepcopy(model), scope="global")
    together.prune(0.8)
    assert not together.masks["net.2.weight"].any()
    method: Pruning[Any] = Pruning(model)
    method.prune(0.8)
    assert [int(mask.sum()) for mask in method.masks.values()] == [320, 160]


def fitted(method: Model[Any], steps: int = 20, **settings: Any) -> Any:
    return dc.fit(method, dc.load_data("moons"), steps=steps, batch_size=32, lr=0.01, quiet=True, **settings)


def test_after_a_cut_the_others_are_rewound_to_their_initial_values() -> None:
    """At the first step of the second round the mask is that of the trained weights, the values are the first ones."""
    model = net()
    initial = copy.deepcopy(model.state_dict())
    method: Pruning[Any] = Pruning(model, sparsity=0.6, scope="global")
    method.prepare([])
    turns = {turn.name: turn for turn in method.turns()}
    assert [(name, turn.share) for name, turn in turns.items()] == [
        ("main-1", (0.0, 0.5)), ("cut-1", (0.5, 1.0)), ("main-2", (0.5, 1.0))
    ]  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    trained = magnitudes(model)
    turns["cut-1"].rule(None)  # type: ignore[attr-defined]
    threshold = np.sort(np.concatenate([part.ravel() for part in trained]))[round(0.6 * 64) - 1]
    for name, old in zip(WEIGHTS, trained, strict=True):
        wanted = torch.where(torch.from_numpy(old > threshold), initial[name], 0.0)
        assert torch.equal(model.get_parameter(name), wanted)
    assert torch.equal(model.get_parameter("net.0.bias"), initial["net.0.bias"])
    with torch.no_grad():
        model.get_parameter("net.0.bias").add_(1)
    turns["cut-1"].rule(None)  # type: ignore[attr-defined]
    assert not torch.equal(model.get_parameter("net.0.bias"), initial["net.0.bias"])  # it cuts only once


@pytest.mark.parametrize("optimizer", ["adam", "sgd:momentum=0.9,weight_decay=0.01"])
def test_pruned_weights_stay_zero_and_cuts_take_equal_shares_of_the_rest(optimizer: str) -> None:
    seen: list[float] = []

    class Watched(Pruning[Labeled]):
        def _stay_pruned(self, after: Any) -> None:
            super()._stay_pruned(after)
            seen.append(float(np.mean(np.concatenate([part.ravel() for part in magnitudes(self.model)]) == 0)))

    method = Watched(net(hidden=64), sparsity=0.875, cuts=3)
    result = fitted(method, steps=16, optimizer=optimizer)
    assert list(dict.fromkeys(seen)) == [0.0, 0.5, 0.75, 0.875]
    assert sorted(seen) == seen
    assert result.test["sparsity"] == pytest.approx(0.875)


def test_what_is_pruned_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "draw_run", lambda *_: [])
    model = net()
    fitted(Pruning(model, sparsity=0.75), out=tmp_path)
    again = dc.load(tmp_path)
    assert isinstance(again, Pruning)
    for (name, mask), part in zip(again.masks.items(), magnitudes(again.model), strict=True):
        assert ((part == 0) == (~mask).numpy()).all(), name
    assert int(again.done) == 1


def test_given_masks_are_kept_through_a_training() -> None:
    method: Pruning[Any] = Pruning(net(), sparsity=0.9)
    masks = {name: torch.rand_like(mask, dtype=torch.float) < 0.3 for name, mask in method.masks.items()}
    method.keep(masks)
    fitted(method)
    for name, mask in masks.items():
        assert torch.equal(method.masks[name], mask)
        assert torch.equal(method.model.get_parameter(name) != 0, mask)


def test_how_the_weights_restart_is_a_choice() -> None:
    ends: dict[str, Any] = {}
    choices: tuple[Literal["initial", "anew", "none"], ...] = ("initial", "anew", "none")
    for restart in choices:
        method: Pruning[Any] = Pruning(net(), sparsity=0.5, restart=restart)
        fitted(method)
        ends[restart] = ([mask.clone() for mask in method.masks.values()], method.model.state_dict())
    for masks, _ in ends.values():  # all found the same mask, since they learned alike up to the cut
        assert all(torch.equal(mask, other) for mask, other in zip(masks, ends["initial"][0], strict=True))
    values = [state["net.0.weight"] for _, state in ends.values()]
    assert not torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])


def test_without_pruning_the_run_is_the_plain_one_bit_for_bit() -> None:
    ends = []
    for sparsity in (None, 0.0):
        model = net()
        fitted(model if sparsity is None else Pruning(model, sparsity=sparsity), steps=6)
        ends.append(model.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_players_of_a_game_are_pruned_together() -> None:
    method: Pruning[Any] = Pruning(GAN.example()[0], sparsity=0.5)
    assert [turn.name for turn in method.turns()] == [
        "discriminator-1", "generator-1", "cut-1", "discriminator-2", "generator-2"
    ]  # fmt: skip


@pytest.mark.slow
def test_a_winning_ticket_beats_the_same_mask_with_new_weights() -> None:
    """Digits with 5 % of the weights, by paired seeds: the same mask once with its own weights, once with others."""
    data = dc.load_data("digits")
    gaps = []
    for seed in range(4):
        losses = []
        starts: tuple[Literal["initial", "anew"], ...] = ("initial", "anew")
        for restart in starts:
            torch.manual_seed(seed)
            model = MLP(features=64, classes=10, hidden=(100,))
            method: Pruning[Any] = Pruning(model, sparsity=0.95, restart=restart)
            result = dc.fit(method, data, steps=200, lr=0.005, seed=seed, quiet=True)
            assert result.test["sparsity"] == pytest.approx(0.95, abs=1e-3)
            losses.append(result.test["nll"])
        gaps.append(losses[1] - losses[0])
    assert min(gaps) > 0, gaps


def test_wrong_arguments_are_refused() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"sparsity": 1.0}, "sparsity is the share of weights to remove"),
        ({"cuts": 0}, "cuts must be at least 1"),
        ({"scope": "all"}, "scope must be one of global, layer"),
        ({"restart": "later"}, "restart must be one of initial, anew, none"),
    )
    for arguments, words in wrong:
        with pytest.raises(UsageError, match=words):
            Pruning(net(), **arguments)
    with pytest.raises(UsageError, match="Toy has no weights that can be pruned"):
        Pruning(Toy(2))
