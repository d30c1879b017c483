"""Transforms: inverses, log-determinants against autograd's Jacobian, the layers of Glow against their definitions."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.nn.dense import dense
from deepcanon.nn.transforms import (
    ActNorm,
    AffineCoupling,
    Chain,
    Flatten,
    Inverse,
    InvertibleConv1x1,
    Reverse,
    Split,
    Squeeze,
    Transform,
)


class Scaled(nn.Module):
    """A network that adds a map of the context to that of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.other = nn.Linear(2, 4), nn.Linear(3, 4)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        out: Tensor = torch.tanh(self.own(x) + self.other(context))
        return out


def of_images(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, 6, 3, padding=1), nn.Tanh(), nn.Conv2d(6, outputs, 3, padding=1))


VECTORS: dict[str, Callable[[], Transform]] = {
    "reverse": Reverse,
    "actnorm": lambda: ActNorm(4),
    "mixing": lambda: InvertibleConv1x1(4),
    "coupling": lambda: AffineCoupling(dense(2, 4, (8,), activation="tanh")),
    "split": lambda: Split((4,), AffineCoupling(dense(1, 2, (8,)))),
    "inverse": lambda: Inverse(AffineCoupling(dense(2, 4, (8,)))),
    "chain": lambda: Chain([ActNorm(4), AffineCoupling(dense(2, 4, (8,))), Reverse(), InvertibleConv1x1(4)]),
}
IMAGES: dict[str, Callable[[], Transform]] = {
    "reverse": Reverse,
    "squeeze": Squeeze,
    "flatten": lambda: Flatten((2, 4, 2)),
    "actnorm": lambda: ActNorm(2),
    "convolution": lambda: InvertibleConv1x1(2),
    "coupling": lambda: AffineCoupling(of_images(1, 2)),
    "split": lambda: Split((2, 4, 2), Chain([Squeeze(), InvertibleConv1x1(4), Flatten((4, 2, 1))])),
    "levels": lambda: Chain(
        [Squeeze(), ActNorm(8), AffineCoupling(of_images(4, 8)), Split((8, 2, 1), Flatten((4, 2, 1)))]
    ),
}


def stirred(make: Callable[[], Transform]) -> Transform:
    torch.manual_seed(0)
    transform = make().double()
    with torch.no_grad():
        for parameter in transform.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return transform


@pytest.mark.parametrize("name", [*VECTORS, *(f"images: {name}" for name in IMAGES)])
def test_a_transform_is_inverted_and_has_the_log_determinant_of_its_jacobian(name: str) -> None:
    kind, _, rest = name.rpartition(": ")
    transform = stirred((IMAGES if kind else VECTORS)[rest])
    x = torch.randn(3, *((2, 4, 2) if kind else (4,)), dtype=torch.float64)
    z, log_det = transform(x)
    assert log_det.shape == (3,)
    torch.testing.assert_close(transform.inverse(z), x, rtol=0, atol=1e-12)
    for row, claimed in zip(x, log_det, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda r: transform(r.unsqueeze(0))[0].flatten(), row)
        wanted = torch.linalg.slogdet(jacobian.reshape(row.numel(), -1)).logabsdet
        assert claimed.item() == pytest.approx(wanted.item(), abs=1e-10)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (4, 6)])
def test_a_1x1_convolution_is_one_matrix_everywhere_with_h_w_log_det_w(height: int, width: int) -> None:
    torch.manual_seed(1)
    layer = InvertibleConv1x1(5).double()
    begin = layer.weight()
    torch.testing.assert_close(begin @ begin.T, torch.eye(5).double(), rtol=0, atol=1e-6)  # a rotation
    with torch.no_grad():
        layer.log_scale.add_(0.3 * torch.randn(5))
        layer.lower.add_(torch.randn(5, 5))
        layer.upper.add_(torch.randn(5, 5))
    x = torch.randn(2, 5, height, width, dtype=torch.float64)
    z, log_det = layer(x)
    torch.testing.assert_close(z, torch.einsum("ij,bjhw->bihw", layer.weight(), x))
    wanted = height * width * torch.linalg.slogdet(layer.weight()).logabsdet
    torch.testing.assert_close(log_det, wanted.expand(2))


def test_actnorm_standardizes_every_channel_of_the_data_it_is_fitted_to_and_only_once() -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 3, 4, 4) * torch.tensor([1.0, 20.0, 0.01]).reshape(3, 1, 1) + 5
    layer = ActNorm(3)
    z = layer.fit(x)
    torch.testing.assert_close(z, layer(x)[0])
    torch.testing.assert_close(z.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-3)
    torch.testing.assert_close(z.std((0, 2, 3), correction=0), torch.ones(3), rtol=1e-3, atol=0)
    scale = layer.log_scale.clone()
    layer.fit(7 * x)
    assert torch.equal(layer.log_scale, scale)


def test_actnorm_keeps_the_scale_of_a_constant_channel() -> None:
    layer = ActNorm(2)
    layer.fit(torch.tensor([[3.0, 0.0], [3.0, 2.0]]))
    assert layer.log_scale.tolist() == [0.0, 0.0]
    assert layer(torch.tensor([[4.0, 1.0]]))[0].tolist() == [[1.0, 0.0]]


def test_a_chain_fits_its_parts_on_what_reaches_them() -> None:
    torch.manual_seed(0)
    inner = ActNorm(3)
    chain = Chain([ActNorm(6), Split((6,), Chain([InvertibleConv1x1(3), inner]))])
    z = chain.fit(9 + 4 * torch.randn(200, 6))
    torch.testing.assert_close(z[:, :3].std(0, correction=0), torch.ones(3))
    assert bool(inner.fitted)


def test_squeeze_takes_neighboring_pixels_into_channels() -> None:
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    z, _ = Squeeze()(image)
    assert z[0, :, 0, 0].tolist() == [0.0, 1.0, 4.0, 5.0]


def test_an_affine_coupling_before_a_split_is_a_gaussian_prior_of_the_half_that_is_done() -> None:
    """The log-density of the second half given the first, under the coupling, is that of a normal distribution."""
    torch.manual_seed(0)
    net = dense(2, 4, (8,)).double()
    flow = Chain([AffineCoupling(net), Split((4,), Flatten((2,)))])
    x = torch.randn(5, 4, dtype=torch.float64)
    z, log_det = flow(x)
    density = -0.5 * (z[:, 2:].square() + math.log(2 * math.pi)).sum(1) + log_det
    s, t = net(x[:, :2]).chunk(2, 1)
    s = 2 * torch.tanh(s / 2)
    prior = torch.distributions.Normal(-t * torch.exp(-s), torch.exp(-s))
    torch.testing.assert_close(density, prior.log_prob(x[:, 2:]).sum(1))


def test_a_context_reaches_conditional_transforms_and_only_these() -> None:
    torch.manual_seed(0)
    flow = Chain([Reverse(), Split((8,), Chain([AffineCoupling(Scaled(), conditional=True)]))]).double()
    x, context = torch.randn(6, 8, dtype=torch.float64), torch.randn(6, 3, dtype=torch.float64)
    assert flow.conditional
    z, _ = flow(x, context)
    torch.testing.assert_close(flow.inverse(z, context), x)
    assert not torch.allclose(flow(x, context + 1)[0], z)
    torch.testing.assert_close(flow.fit(x, context), z)
    with pytest.raises(UsageError, match="is conditional: give it the context"):
        flow(x)
    with pytest.raises(UsageError, match="leave out the context"):
        Chain([Reverse()])(x, context)


def test_mixed_precision_does_not_reach_the_mixing() -> None:
    torch.manual_seed(0)
    layer, x = InvertibleConv1x1(8), torch.randn(4, 8, 3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z, _ = layer(x)
    assert torch.equal(z, layer(x)[0])


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2, 5), (0, 4, 2, 5)])
def test_the_written_gradient_of_a_1x1_convolution_is_that_of_autograd(shape: tuple[int, ...]) -> None:
    layer = stirred(lambda: InvertibleConv1x1(4))
    assert isinstance(layer, InvertibleConv1x1)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    of_z, of_log_det = torch.randn(shape, dtype=torch.float64), torch.randn(len(x), dtype=torch.float64)
    inputs = (x, *layer.parameters())
    plain = layer.mixed(x, layer.lower, layer.upper, layer.log_scale)
    for one, other in zip(layer(x), plain, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)
    found, wanted = (torch.autograd.grad(mapped, inputs, (of_z, of_log_det)) for mapped in (layer(x), plain))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_a_1x1_convolution_has_second_derivatives() -> None:
    layer = stirred(lambda: InvertibleConv1x1(3))
    x = torch.randn(2, 3, 1, 2, dtype=torch.float64, requires_grad=True)
    again = (x, *(parameter.detach().clone().requires_grad_() for parameter in layer.parameters()))
    names = [name for name, _ in layer.named_parameters()]

    def bent(x: Tensor, *weights: Tensor) -> Tensor:
        z, log_det = torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))
        return z.square().flatten(1).sum(1) * log_det

    assert torch.autograd.gradcheck(bent, again)
    assert torch.autograd.gradgradcheck(bent, again)
    once, twice = (torch.autograd.grad(bent(*again).sum(), again, create_graph=graph) for graph in (False, True))
    torch.testing.assert_close(once, twice)
