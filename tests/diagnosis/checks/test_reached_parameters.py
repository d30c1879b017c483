from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from deepcanon.core import Labeled, Terms
from deepcanon.core.toy_classifier import ToyClassifier
from tests.diagnosis.checks.plain import X, adam, causes, net, report
from tests.diagnosis.checks.planted import causes as causes_of
from tests.diagnosis.checks.planted import report_of


class Listed(nn.Module):
    def __init__(self, kind: type = list) -> None:
        super().__init__()
        self.hidden = kind([nn.Linear(10, 8), nn.Linear(8, 8)])
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = layer(x).relu()
        out: Tensor = self.last(x)
        return out


class Detached(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self[4](self[2](self[0](x).relu()).detach())
        return out


class Forgotten(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self[4](self[0](x).relu())
        return out


def test_layers_in_a_list_are_seen_and_those_of_a_module_list_are_fine() -> None:
    assert causes("reached_parameters", Listed()) == ["unregistered parameters"]
    assert causes("reached_parameters", Listed(nn.ModuleList)) == []


def test_what_no_gradient_reaches_is_seen_and_what_is_frozen_is_fine() -> None:
    assert causes("reached_parameters", Detached(*net())) == ["detached graph"]
    assert causes("reached_parameters", Forgotten(*net())) == ["unused parameters"]
    frozen = net()
    frozen[0].requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in frozen.parameters() if p.requires_grad])
    assert causes("reached_parameters", frozen, optimizer=optimizer) == []


def test_nothing_to_train_is_seen() -> None:
    other = net()
    assert causes("reached_parameters", net().requires_grad_(False), optimizer=adam(other)) == ["frozen parameters"]


def test_the_turns_of_a_model_are_followed() -> None:
    def loss(self: ToyClassifier, batch: Labeled) -> Terms:
        hidden = self.first(batch.x.flatten(1)).tanh().detach()
        return {"nll": nn.functional.cross_entropy(self.last(hidden), batch.y)}

    assert causes_of(report_of("reached_parameters", "mlp", "moons")) == []
    toy = ToyClassifier(2, 2)
    assert causes_of(report_of("reached_parameters", toy, "moons", methods={"loss": loss})) == ["detached graph"]


class MadeAnew(nn.Module):
    """A first layer with new weights in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(nn.Linear(10, 8)(x).relu())
        return out


def penalized(model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor]) -> None:
    """A step whose loss has the squared gradient of the scores by the inputs in it."""
    x = batch[0].clone().requires_grad_()
    scores = model(x)
    (slope,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
    optimizer.zero_grad()
    (nn.functional.cross_entropy(scores, batch[1]) + slope.square().mean()).backward()
    optimizer.step()


def test_inputs_of_an_inner_gradient_are_no_parameters() -> None:
    assert causes("reached_parameters", net(activation=nn.Tanh), step=penalized) == []
    assert causes("reached_parameters", MadeAnew()) == ["unregistered parameters"]


@pytest.mark.parametrize("name", ["wgan", "score_matching", "ebm", "contractive_autoencoder"])
def test_models_with_inner_gradients_are_fine(name: str) -> None:
    assert causes_of(report_of("reached_parameters", name, "moons")) == []


class Game(nn.Module):
    """A generator and a discriminator that a step trains in turn, the generator at every third step."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Linear(2, 10)
        self.discriminator = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x: Tensor) -> Tensor:
        score: Tensor = self.discriminator(x)
        return score


def play(model: Any, optimizer: torch.optim.Optimizer, x: Tensor, number: int) -> None:
    made = model.generator(torch.randn(len(x), 2))
    optimizer.zero_grad()
    (softplus(-model(x)) + softplus(model(made.detach()))).mean().backward()
    optimizer.step()
    if number % 3 == 0:
        optimizer.zero_grad()
        softplus(-model(made)).mean().backward()
        model.discriminator.zero_grad()
        optimizer.step()


def test_the_players_of_a_game_are_reached_by_losses_of_their_own() -> None:
    model = Game()
    assert causes("reached_parameters", model, X, loss=None, step=play) == []
    assert "does not measure fit" in report("learning_rate", model, X, loss=None, step=play).skipped["learning_rate"]

    def forgets(model: Any, optimizer: torch.optim.Optimizer, x: Tensor, number: int) -> None:
        play(model, optimizer, x, 3 * number + 1)

    assert causes("reached_parameters", model, X, loss=None, step=forgets) == ["detached graph"]
