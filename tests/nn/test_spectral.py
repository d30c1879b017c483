"""Spectral normalization against singular values, and against torch's own on the same weight."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from deepcanon.nn.spectral import SpectralNorm, iterate_spectral_norms, spectral_norm


@pytest.mark.parametrize("layer", [nn.Linear(7, 4), nn.Conv2d(3, 5, 2)])
def test_the_weight_is_divided_by_its_largest_singular_value(layer: Any) -> None:
    torch.manual_seed(0)
    layer = layer.double()
    weight = layer.weight.detach().clone()
    layer = spectral_norm(layer)
    for _ in range(200):
        iterate_spectral_norms(layer)
    sigma = torch.linalg.svdvals(weight.flatten(1))[0]
    torch.testing.assert_close(layer.weight, weight / sigma, rtol=1e-9, atol=1e-12)


def test_with_the_same_vectors_value_and_gradient_are_those_of_torch() -> None:
    torch.manual_seed(0)
    plain = nn.Linear(6, 4).double()
    theirs: Any = parametrizations.spectral_norm(nn.Linear(6, 4).double()).eval()
    theirs.parametrizations.weight.original.data.copy_(plain.weight.data)
    ours = SpectralNorm(plain.weight)
    own = theirs.parametrizations.weight[0]
    own._u.copy_(ours.u)
    own._v.copy_(ours.v)
    x = torch.randn(3, 6, dtype=torch.float64)
    (found,) = torch.autograd.grad((x @ ours(plain.weight).T).square().sum(), plain.weight)
    original = theirs.parametrizations.weight.original
    (wanted,) = torch.autograd.grad((theirs(x) - theirs.bias).square().sum(), original)
    torch.testing.assert_close(ours(plain.weight), theirs.weight, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_a_pass_changes_nothing_and_an_iteration_only_the_vectors() -> None:
    torch.manual_seed(0)
    layer: Any = spectral_norm(nn.Linear(6, 4))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer(torch.randn(3, 6))
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    nn.init.normal_(layer.parametrizations.weight.original)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    iterate_spectral_norms(layer)
    changed = [name for name, value in layer.state_dict().items() if not torch.equal(value, before[name])]
    assert changed == ["parametrizations.weight.0.u", "parametrizations.weight.0.v"]
