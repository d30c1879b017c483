"""The faster formula is torch's function, with its first and second derivatives."""

import torch
from torch.nn.functional import gelu

from deepcanon.nn.gelu import gelu_tanh


def test_values_and_derivatives_are_those_of_torch() -> None:
    x = torch.cat([torch.linspace(-12, 12, 1001), torch.tensor([-1e30, 1e30])]).double().requires_grad_()
    weight = torch.rand(len(x), generator=torch.Generator().manual_seed(0)).double()
    found = []
    for function in (gelu_tanh, lambda x: gelu(x, approximate="tanh")):
        value = function(x)
        (first,) = torch.autograd.grad((weight * value).sum(), x, retain_graph=True)
        (graph,) = torch.autograd.grad(value[:-2].square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((weight * graph)[:-2].sum(), x)
        found.append((value, first[:-2], second))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    assert torch.autograd.gradgradcheck(gelu_tanh, (x[::50].detach().clone().requires_grad_(),))


def test_it_works_under_torch_func() -> None:
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)
    ours = torch.func.vmap(torch.func.grad(gelu_tanh))(x)
    theirs = torch.func.vmap(torch.func.grad(lambda v: gelu(v, approximate="tanh")))(x)
    torch.testing.assert_close(ours, theirs)
