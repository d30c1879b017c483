"""Adapters leave the model as it was at first, have the number of parameters of their formula, and train alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.adapters import Adapters, Bottleneck
from deepcanon.models.attention.gpt import GPT
from deepcanon.models.convolutional.cnn import CNN


def test_an_adapter_of_bert_base_has_the_number_of_the_formula() -> None:
    adapter = Bottleneck(torch.empty(768, 3072, device="meta"), 64, 1.0)
    assert sum(parameter.numel() for parameter in adapter.parameters()) == 99_136  # 2 d m + d + m


def test_an_adapter_is_its_equation() -> None:
    torch.manual_seed(0)
    adapter = Bottleneck(torch.empty(5, 3, dtype=torch.float64), 2, 0.5)
    for parameter in adapter.parameters():
        nn.init.normal_(parameter)
    h = torch.randn(4, 5, dtype=torch.float64)
    w1, b1, w2, b2 = (parameter.detach() for parameter in adapter.parameters())
    wanted = h + 0.5 * ((h @ w1.T + b1).clamp_min(0) @ w2.T + b2)
    torch.testing.assert_close(adapter(h), wanted)
    image = torch.randn(2, 5, 3, 3, dtype=torch.float64)
    of_channels = Bottleneck(torch.empty(5, 3, 3, 3, dtype=torch.float64), 2, 0.5)
    of_channels.load_state_dict(adapter.state_dict())
    pixel = of_channels(image)[:, :, 1, 2]
    torch.testing.assert_close(pixel, adapter(image[:, :, 1, 2]))


@pytest.mark.parametrize("name", ["gpt", "cnn"])
def test_the_model_begins_as_it_was_and_only_adapters_heads_and_norms_are_trained(name: str) -> None:
    torch.manual_seed(0)
    model, batch = dc.find(name).example()
    plain = copy.deepcopy(model).eval()
    method: Adapters[Any] = Adapters(model, bottleneck=2).eval()
    wanted, found = plain.loss(batch), method.loss(batch)
    assert all(torch.equal(wanted[term], found[term]) for term in wanted)
    (turn,) = method.turns()
    learned = {id(parameter) for parameter in turn.parameters}  # type: ignore[attr-defined]
    named = {name for name, parameter in model.named_parameters() if id(parameter) in learned}
    norms = [part for part in model.modules() if isinstance(part, nn.LayerNorm | nn.BatchNorm2d)]
    expected = {id(parameter) for part in norms for parameter in part.parameters()}
    head = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
    expected |= {id(parameter) for parameter in head.parameters()}
    assert named == {name for name, parameter in model.named_parameters() if id(parameter) in expected}
    assert len(learned) == len(expected) + 4 * len(method.adapted)


def test_every_adapter_of_a_transformer_is_reached() -> None:
    """Also those of layers whose product is fused with others': each moves the loss."""
    torch.manual_seed(0)
    model, batch = GPT.example()
    method: Adapters[Any] = Adapters(model, bottleneck=2, layers=("*.output", "*down_projection")).eval()
    assert method.adapted
    assert all(name.endswith(("output", "down_projection")) for name in method.adapted)
    before = method.loss(batch)["nll"].item()
    for adapter in method.bottlenecks.values():
        with torch.no_grad():
            adapter.up.bias.normal_()  # type: ignore[union-attr, operator]
        after = method.loss(batch)["nll"].item()
        assert after != before
        before = after


def test_a_copy_has_adapters_of_its_own() -> None:
    torch.manual_seed(0)
    method: Adapters[Any]
    method, batch = Adapters.example()
    other = copy.deepcopy(method)
    with torch.no_grad():
        for adapter in other.bottlenecks.values():
            adapter.up.bias.fill_(1.0)  # type: ignore[union-attr, operator]
    assert not torch.equal(other(batch.x), method(batch.x))
    assert torch.equal(method(batch.x), method.model(batch.x))


def test_layers_that_the_loss_does_not_pass_through_are_named() -> None:
    """Those of a copy of the network that only follows its weights cannot be adapted."""
    torch.manual_seed(0)
    model, batch = dc.find("ddpm").example()
    with pytest.raises(UsageError, match=r"no part in the loss of ddpm: averaged\.net\.\S+.*leave them out by layers="):
        Adapters(model).prepare([batch])
    Adapters(copy.deepcopy(model), layers=("net.*",)).prepare([batch])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="bottleneck must be at least 1"):
        Adapters(ToyClassifier(2, 2), bottleneck=0)
    with pytest.raises(
        UsageError, match="layers='conv\\*' matches no layer of ToyClassifier that an adapter can follow"
    ):
        Adapters(ToyClassifier(2, 2), layers=("conv*",))
    with pytest.raises(UsageError, match="adapters are layers of their own"):
        Adapters(CNN.example()[0]).unwrapped()
