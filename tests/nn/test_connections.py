"""Connections keep their identities: of gradients, of sizes, and of what they are at their limits."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev

from deepcanon.core import UsageError
from deepcanon.nn.connections import Combine, DenselyConnected, HighwayGate, Residual, Skip

WIDTH = 5


def layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double()


def point() -> Tensor:
    return torch.randn(WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_the_gradient_of_a_residual_layer_is_the_identity_and_that_of_the_layer() -> None:
    inner, x = layer(), point()
    eye = torch.eye(WIDTH, dtype=torch.float64)
    torch.testing.assert_close(jacrev(Residual(inner))(x), eye + jacrev(inner)(x))


@pytest.mark.parametrize("combine", ["concat", "mean", "max", "attention"])
def test_skips_combine_input_and_output_as_they_say(combine: Combine) -> None:
    inner, x = layer(), point().expand(3, WIDTH)
    new = inner(x)
    expected = {
        "concat": torch.cat([x, new], -1),
        "mean": torch.stack([x, new]).mean(0),
        "max": torch.stack([x, new]).amax(0),
        "attention": torch.stack([x, new]).mean(0),  # until the query is learned
    }
    torch.testing.assert_close(Skip(inner, combine, WIDTH).double()(x), expected[combine])


def test_attention_over_input_and_output_is_torchs_own() -> None:
    inner, x = layer(), torch.randn(4, WIDTH, dtype=torch.float64)
    skip = Skip(inner, "attention", WIDTH).double()
    nn.init.normal_(skip.query)
    both = torch.stack([x, inner(x)], 1)
    queries = skip.query.expand(4, 1, WIDTH)
    oracle = nn.functional.scaled_dot_product_attention(queries, both, both).squeeze(1)
    torch.testing.assert_close(skip(x), oracle)


def test_dense_layers_see_all_before_them_and_pass_all_on() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH + 2 * place, 2).double() for place in range(3)]
    net, x = DenselyConnected(layers), point()
    y = net(x)
    assert torch.equal(y[:WIDTH], x)
    for place in range(3):
        size = WIDTH + 2 * place
        torch.testing.assert_close(y[size : size + 2], layers[place](y[:size]))
    last = jacrev(net)(x)[-2:]  # through the last layer alone, and through those before it
    weight = layers[2].weight
    torch.testing.assert_close(last, weight @ jacrev(DenselyConnected(layers[:2]))(x))
    images = DenselyConnected([nn.Conv2d(3, 4, 1)], dim=1)(torch.zeros(2, 3, 6, 6))
    assert images.shape == (2, 7, 6, 6)


def test_a_gate_that_is_shut_is_the_identity_and_one_that_is_open_the_layer() -> None:
    inner, x = layer(), point()
    for bias, limit in ((-1e3, x), (1e3, inner(x))):
        torch.testing.assert_close(HighwayGate(inner, WIDTH, bias).double()(x), limit)
    gate = HighwayGate(inner, WIDTH).double()
    assert gate.gate.bias.eq(-2).all()
    t = gate.gate(x).sigmoid()
    torch.testing.assert_close(gate(x), t * inner(x) + (1 - t) * x)


def test_mistakes_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="combine must be one of concat, mean, max, attention"):
        Skip(layer(), "sum")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="width must be at least 1"):
        Skip(layer(), "attention")
