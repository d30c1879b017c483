"""The moving average of weights against the recursion written out."""

import torch
from torch import nn

from deepcanon.nn.averaged import Averaged


def test_it_follows_the_weights_by_the_recursion() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(2, 3).double()
    net = nn.Sequential(layer, nn.LayerNorm(3).double())
    averaged = Averaged(net, 0.3).double()
    wanted = layer.weight.detach().clone()
    for n in range(6):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter))
        averaged.update(net)
        decay = min(0.3, (1 + n) / (10 + n))
        wanted = decay * wanted + (1 - decay) * layer.weight.detach()
    assert torch.allclose(averaged.state_dict()["net.0.weight"], wanted)


def test_its_weights_are_state_and_no_parameters_and_start_as_the_net_s() -> None:
    net = nn.Linear(2, 3)
    averaged = Averaged(net, 0.9)
    assert not list(averaged.parameters())
    assert set(averaged.state_dict()) == {"net.weight", "net.bias", "updates"}
    x = torch.randn(4, 2)
    assert torch.equal(averaged(x), net(x))
    with torch.no_grad():
        net.weight.add_(1)
    assert not torch.equal(averaged(x), net(x))
