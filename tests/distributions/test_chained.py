"""Chains of latent variables against the joint Gaussian of a linear chain, and in a model with two layers of them."""

from typing import Self

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from deepcanon import laws
from deepcanon.core import Batch, Support, Terms
from deepcanon.distributions.chained import Chained
from deepcanon.models.variational._encoder_decoder import VariationalAutoencoder, diagonal_gaussian
from deepcanon.models.variational._variational import Variational
from deepcanon.nn.dense import dense

DOUBLE = torch.float64


def gaussian(mean: Tensor, scale: float) -> Distribution:
    return Independent(Normal(mean, torch.full_like(mean, scale)), 1)


def linear_chain(backward: bool) -> tuple[Chained, MultivariateNormal, Tensor]:
    """z1 ~ N(0, I) of two values, z2 = A z1 + 0.5 e of three; and the joint in the order of the values."""
    weight = torch.randn(3, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    chain = Chained(
        gaussian(torch.zeros(2, dtype=DOUBLE), 1.0), [lambda z: gaussian(z @ weight.T, 0.5)], (2, 3), backward=backward
    )
    top, cross = torch.eye(2, dtype=DOUBLE), weight
    low = weight @ weight.T + 0.25 * torch.eye(3, dtype=DOUBLE)
    joint = torch.cat([torch.cat([top, cross.T], 1), torch.cat([cross, low], 1)])
    if backward:
        order = torch.tensor([2, 3, 4, 0, 1])
        joint = joint[order][:, order]
    return chain, MultivariateNormal(torch.zeros(5, dtype=DOUBLE), joint), weight


def test_a_linear_chain_is_the_joint_gaussian() -> None:
    for backward in (False, True):
        chain, joint, _ = linear_chain(backward)
        torch.testing.assert_close(chain.mean, joint.mean)
        torch.testing.assert_close(chain.variance, joint.variance)
        value = torch.randn(7, 5, dtype=DOUBLE)
        torch.testing.assert_close(chain.log_prob(value), joint.log_prob(value))
        torch.manual_seed(0)
        drawn = chain.sample(torch.Size([200_000]))
        torch.testing.assert_close(torch.cov(drawn.T), joint.covariance_matrix, rtol=0, atol=0.06)


def test_a_value_comes_with_its_density_and_the_same_gradients() -> None:
    """What is computed along the way is what ``log_prob`` computes from the value, also as a function of the steps."""
    weight = torch.randn(2, 2, dtype=DOUBLE, requires_grad=True)
    for memory in (False, True):
        start = gaussian(torch.zeros(4, 2, dtype=DOUBLE), 1.0)
        step = (lambda z: gaussian(z[..., -2:] @ weight + z[..., :2], 0.5)) if memory else (
            lambda z: gaussian(z @ weight, 0.5)
        )  # fmt: skip
        chain = Chained(start, [step, step], (2, 2, 2), memory=memory)
        z, density = chain.rsample_and_log_prob(torch.Size([3]))
        torch.testing.assert_close(density, chain.log_prob(z))
        (one,), (other,) = (
            torch.autograd.grad(d.sum(), weight, retain_graph=True) for d in (density, chain.log_prob(z))
        )
        torch.testing.assert_close(one, other)


def test_three_links_keep_how_their_values_vary_together() -> None:
    weight = torch.tensor([[0.5, 1.5], [-2.0, 1.0]], dtype=DOUBLE)
    start = torch.tensor([0.3, -1.0], dtype=DOUBLE)
    steps = [lambda z: gaussian(z @ weight.T + 1, 0.5), lambda z: gaussian(z @ weight - 2, 0.25)]
    chain = Chained(gaussian(start, 2.0), steps, (2, 2, 2))
    second = weight @ (4 * torch.eye(2, dtype=DOUBLE)) @ weight.T + 0.25 * torch.eye(2, dtype=DOUBLE)
    third = weight.T @ second @ weight + 0.0625 * torch.eye(2, dtype=DOUBLE)
    wanted = torch.cat([torch.full((2,), 4.0, dtype=DOUBLE), second.diagonal(), third.diagonal()])
    torch.testing.assert_close(chain.variance, wanted)
    torch.testing.assert_close(chain.mean[2:4], start @ weight.T + 1)
    torch.testing.assert_close(chain.mean[4:], (start @ weight.T + 1) @ weight - 2)


class TwoLayers(Variational[Batch]):
    """x = B z1 + e with z1 = A z2 + e: a posterior from the data upwards, a prior from the top downwards."""

    latent = 3

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.tensor([[0.8], [-0.5]])), nn.Parameter(torch.eye(3, 2) + 0.3)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(), Batch(torch.randn(6, 3))

    @property
    def support(self) -> Support:
        return "real"

    def prior(self) -> Distribution:
        top = gaussian(self.a.new_zeros(1), 1.0)
        return Chained(top, [lambda z: gaussian(z @ self.a.T, 0.7)], (1, 2), backward=True)

    def encode(self, x: Tensor) -> Distribution:
        """The exact posterior of z1 and of z2 given z1, as a chain."""
        prior = self.a @ self.a.T + 0.49 * torch.eye(2, dtype=x.dtype)
        covariance = torch.linalg.inv(torch.linalg.inv(prior) + self.b.T @ self.b / 0.36)
        low = MultivariateNormal(x @ self.b @ covariance / 0.36, covariance)
        spread = 1 / (1 + self.a.square().sum() / 0.49)
        return Chained(low, [lambda z: gaussian(z @ self.a * spread / 0.49, float(spread.sqrt().detach()))], (2, 1))

    def decode(self, z: Tensor) -> Distribution:
        return gaussian(z[..., :2] @ self.b.T, 0.6)

    def loss(self, batch: Batch) -> Terms:
        return {"elbo": torch.stack(self.bound(batch.x)).sum(0).mean()}


def test_with_the_exact_posterior_every_draw_of_the_bound_is_the_evidence() -> None:
    torch.manual_seed(0)
    model, batch = TwoLayers.example()
    model, x = model.double(), batch.x.double()
    low = model.a @ model.a.T + 0.49 * torch.eye(2, dtype=DOUBLE)
    covariance = model.b @ low @ model.b.T + 0.36 * torch.eye(3, dtype=DOUBLE)
    exact = MultivariateNormal(torch.zeros(3, dtype=DOUBLE), covariance).log_prob(x)
    with torch.no_grad():
        torch.testing.assert_close(model.log_prob(x), exact, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(model.log_prob(x, samples=3), exact, rtol=1e-9, atol=1e-9)
        drawn = model.sample(100_000)
    torch.testing.assert_close(torch.cov(drawn.T), covariance.detach(), rtol=0, atol=0.06)


class HierarchicalVAE(VariationalAutoencoder[Batch]):
    r"""A VAE with two layers of latents, whose posterior goes upwards from the data and whose prior comes downwards.

    .. math:: p(z_2) p(z_1 \mid z_2) p(x \mid z_1), \qquad q(z_1 \mid x) q(z_2 \mid z_1) \qquad (1)

    References:
        | Ladder Variational Autoencoders (Sonderby et al., 2016), https://arxiv.org/abs/1602.02282

    Arguments:
        features: The dimension of the data.
    """

    def __init__(self, features: int) -> None:
        super().__init__(features, 2, (4,), "gaussian", "tanh", posterior=2)
        self.up, self.down = dense(1, 2, (3,), activation="tanh"), dense(1, 2, (3,), activation="tanh")

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(3), Batch(torch.randn(16, 3, generator=torch.Generator().manual_seed(0)))

    def encode(self, x: Tensor) -> Distribution:
        return Chained(diagonal_gaussian(self._encoded(x)), [lambda z: diagonal_gaussian(self.up(z))], (1, 1))

    def prior(self) -> Distribution:
        zeros = next(self.down.parameters()).new_zeros(1)
        top = Independent(Normal(zeros, torch.ones_like(zeros), validate_args=False), 1, validate_args=False)
        return Chained(top, [lambda z: diagonal_gaussian(self.down(z))], (1, 1), backward=True)

    def loss(self, batch: Batch) -> Terms:
        reconstruction, kl = self.bound(batch.x)  # eq. (1)
        return {"reconstruction": reconstruction.mean(), "kl": kl.mean()}


@pytest.mark.slow
def test_a_vae_of_two_layers_keeps_all_laws() -> None:
    assert laws.kinds_of(HierarchicalVAE) == ["contract", "latent"]
    broken = [outcome for outcome in laws.check(HierarchicalVAE) if not outcome.holds]
    assert not broken, laws.report(broken)
