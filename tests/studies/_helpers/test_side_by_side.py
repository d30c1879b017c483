"""Networks that are trained side by side learn what each learns alone."""

import copy

import torch

from deepcanon.models.feedforward.mlp import MLP
from deepcanon.studies._helpers.side_by_side import fit_side_by_side


def test_each_network_learns_as_it_does_alone() -> None:
    torch.manual_seed(0)
    models = [MLP(features=2, targets=3, hidden=(4,), activation="tanh").double() for _ in range(2)]
    x, y = torch.randn(5, 2).double(), torch.randn(2, 5, 3).double()
    before = copy.deepcopy(models)
    says = fit_side_by_side(models, x, y, steps=20, lr=0.05)
    answers = says(x)
    for model, begun, targets, answer in zip(models, before, y, answers, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(model.parameters(), begun.parameters(), strict=True))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            (model(x) - targets).square().sum(-1).mean().backward()
            optimizer.step()
        torch.testing.assert_close(model(x).detach(), answer)
        assert (answer - begun(x)).abs().max() > 0.1
