"""The network of vectors and time: where it begins, and that time and every value matter."""

import math

import torch

from deepcanon.nn.time_mlp import ClassTimeMLP, TimeMLP, time_features


def test_time_features_are_sines_and_cosines_at_falling_frequencies() -> None:
    got = time_features(torch.tensor([3.0]), 4, longest=100.0)[0]
    wanted = [math.sin(3), math.sin(0.3), math.cos(3), math.cos(0.3)]
    assert torch.allclose(got, torch.tensor(wanted))


def test_every_value_and_the_time_matter_once_it_is_stirred() -> None:
    torch.manual_seed(0)
    net = TimeMLP(3, (8, 6)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    x = torch.randn(5, 3, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda v: net(v, torch.tensor([7])), x[:1])
    assert (jacobian.abs() > 1e-6).all()
    t = torch.tensor([1, 2, 30, 400, 1000])
    each = torch.cat([net(x[i : i + 1], t[i : i + 1]) for i in range(5)])
    assert torch.allclose(net(x, t), each)
    assert (net(x, t) - net(x, t.flip(0))).abs().amax(1)[[0, 1, 3, 4]].min() > 1e-4


def test_each_class_and_the_null_class_conditions_the_output() -> None:
    torch.manual_seed(0)
    net = ClassTimeMLP(3, (8, 6), classes=2).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    x, t = torch.randn(1, 3, dtype=torch.float64), torch.tensor([7])
    said = net(x.expand(3, 3), t, torch.arange(3))
    each = torch.cat([net(x, t, torch.tensor([y])) for y in range(3)])
    assert torch.allclose(said, each)
    assert torch.pdist(said).min() > 1e-3
    net.label.weight.data.zero_()
    assert torch.equal(net(x, t, torch.tensor([1])), net.net(x, t))
