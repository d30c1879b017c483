"""Tickets are the largest weights where they began, baselines are fair, and the ticket wins by paired seeds."""

from typing import Any

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.methods.pruning import Pruning
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.studies.lottery import largest, lottery, shuffled

WEIGHTS = ("net.0.weight", "net.2.weight")


def net() -> MLP:
    torch.manual_seed(0)
    return MLP(features=6, classes=3, hidden=(10,))


def test_the_mask_is_that_of_the_largest_weights_and_the_network_stays_whole() -> None:
    model = net()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    method: Pruning[Any] = Pruning(model, sparsity=0.8, scope="global")
    masks = largest(method, 0.8)
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
    kept, gone = (
        torch.cat([before[name][mask if keep else ~mask].abs() for name, mask in masks.items()])
        for keep in (True, False)
    )
    assert (len(kept), len(gone)) == (18, 72)
    assert kept.min() > gone.max()


def test_a_shuffled_mask_keeps_as_many_weights_of_each_layer_but_others() -> None:
    masks = largest(Pruning(net(), sparsity=0.5), 0.5)
    other = shuffled(masks, 1)
    for name in WEIGHTS:
        assert other[name].shape == masks[name].shape
        assert other[name].sum() == masks[name].sum()
        assert not torch.equal(other[name], masks[name])
    assert all(torch.equal(other[name], shuffled(masks, 1)[name]) for name in WEIGHTS)


@pytest.mark.slow
def test_the_ticket_beats_the_same_mask_with_other_weights_and_random_masks() -> None:
    before = torch.get_rng_state()
    finding = lottery(MLP, Pruning, hidden=60, kept_shares=(0.1,), seeds=2, steps=120)
    assert torch.equal(torch.get_rng_state(), before)
    rows = finding.numbers["rows"]
    assert [row["arm"] for row in rows] == ["whole", "ticket", "anew", "random"] * 2
    for start in (0, 4):
        whole, ticket, anew, random = rows[start : start + 4]
        assert whole["nll"] < ticket["nll"] < anew["nll"] < random["nll"]
        assert whole["accuracy"] > 0.9
    gaps = finding.numbers["gaps"]
    assert gaps["anew"] == [[rows[2]["nll"] - rows[1]["nll"], rows[6]["nll"] - rows[5]["nll"]]]
    assert gaps["random"] == [[rows[3]["nll"] - rows[1]["nll"], rows[7]["nll"] - rows[5]["nll"]]]
    assert "in 2 of 2 pairs with new initial weights, and in 2 of 2 with random masks" in finding.says[-1]


def test_shares_and_data_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="kept_shares are shares of the weights"):
        lottery(MLP, Pruning, kept_shares=(1.5,))
    with pytest.raises(UsageError, match="diabetes has none"):
        lottery(MLP, Pruning, data="diabetes")
