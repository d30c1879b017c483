"""Networks that are trained side by side learn what each learns alone."""

import copy

import torch

from deepcanon.models.feedforward.mlp import MLP
from deepcanon.studies._helpers.side_by_side import SideBySide, fit_side_by_side


def test_each_network_learns_as_it_does_alone() -> None:
    torch.manual_seed(0)
    models = [MLP(features=2, targets=3, hidden=(4,), activation="tanh").double() for _ in range(2)]
    x, y = torch.randn(5, 2).double(), torch.randn(2, 5, 3).double()
    before = copy.deepcopy(models)
    rates = [0.05, 0.02]
    networks = fit_side_by_side(models, x, y, steps=20, rates=rates)
    answers = networks.outputs(x)
    for model, begun, targets, answer, rate in zip(models, before, y, answers, rates, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(model.parameters(), begun.parameters(), strict=True))
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for _ in range(20):
            optimizer.zero_grad()
            (model(x) - targets).square().sum(-1).mean().backward()
            optimizer.step()
        torch.testing.assert_close(model(x).detach(), answer)
        assert (answer - begun(x)).abs().max() > 0.1
    torch.testing.assert_close(networks.trained(1)(x).detach(), answers[1])


def test_rates_follow_a_cosine_and_a_rate_of_zero_stands_still() -> None:
    torch.manual_seed(0)
    models = [MLP(features=2, targets=1, hidden=(3,)) for _ in range(2)]
    networks = SideBySide(models, "sgd", [0.1, 0.0])
    x, y = torch.randn(2, 4, 2), torch.randn(2, 4, 1)
    start = {name: leaf.detach().clone() for name, leaf in networks.leaves.items()}
    networks.anneal(1, 2)
    networks.step(lambda outputs: (outputs - y).square().mean((1, 2)), x)
    alone = copy.deepcopy(models[0])
    (alone(x[0]) - y[0]).square().mean().backward()
    for name, parameter in alone.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(networks.leaves[name][0], start[name][0] - 0.05 * parameter.grad)
        assert torch.equal(networks.leaves[name][1], start[name][1])
